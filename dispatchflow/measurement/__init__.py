"""Measure the times of cases, the machine's speed, and whether two IREE runtimes are equally fast."""
