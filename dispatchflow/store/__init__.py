"""The store keeps objects, records of executed actions, and locks.

An object is a file that is named by the digest of its content.
"""
