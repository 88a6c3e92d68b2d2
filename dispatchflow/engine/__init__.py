"""Actions, their keys, the state of cases, and the execution of an action."""
