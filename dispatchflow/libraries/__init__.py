"""Providers other than IREE: libraries of this Python environment, such as numpy and torch."""
