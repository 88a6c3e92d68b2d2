"""MLIR as text: types, attributes and the pieces of a function's body."""
