"""IREE's formats, targets and command lines: texts and bytes in, values out. Pure."""
