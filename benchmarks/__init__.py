"""Measure dispatchflow's overhead: `python -m benchmarks`."""
