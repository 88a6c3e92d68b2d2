"""Times as numbers: protocols, intervals and comparisons. All functions are pure."""
