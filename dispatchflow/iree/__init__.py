"""IREE's formats, targets and command lines: pure functions from text and bytes to values."""
