"""Actions, their keys, where cases stand, and the execution of one action."""
