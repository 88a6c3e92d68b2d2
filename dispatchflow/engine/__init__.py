"""Actions, which are the steps of the work, such as a compile: their keys, execution and results."""
