"""Compute medians, their intervals and comparisons from measured times. All functions are pure."""
