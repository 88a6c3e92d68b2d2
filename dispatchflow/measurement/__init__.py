"""Measure the times of cases, how fast the machine is, and whether two runtimes are equally fast."""
