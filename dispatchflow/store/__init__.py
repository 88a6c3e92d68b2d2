"""The store: objects named by their digest, records of actions, and the locks on both."""
