"""Define cases and their parts, users' MLIR modules, and known failures; no code here runs a tool."""
