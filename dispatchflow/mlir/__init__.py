"""MLIR as text: types, attributes, functions, and pieces of a function's body."""
