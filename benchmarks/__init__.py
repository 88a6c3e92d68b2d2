"""What dispatchflow costs beside the tools that it runs: `python -m benchmarks`, on a quiet machine."""
