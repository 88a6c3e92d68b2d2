"""Times as numbers: protocols, intervals, comparisons. Pure."""
