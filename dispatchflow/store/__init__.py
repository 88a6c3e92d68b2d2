"""The store: objects (files named by their content's digest), records of executed actions, and locks."""
