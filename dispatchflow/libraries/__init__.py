"""Libraries that can compute a case in place of IREE, such as numpy and torch."""
