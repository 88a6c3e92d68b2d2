"""The steps of the work, such as a compile (actions): their keys, execution and results."""
