"""MLIR as text: its types, attributes and the pieces of a function's body."""
