"""Measure dispatchflow's overhead beside the tools that it runs: `python -m benchmarks`."""
