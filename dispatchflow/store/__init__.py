"""The store keeps objects, locks, and records of executed actions (steps such as a compile).

An object is a file that is named by the digest of its content."""
