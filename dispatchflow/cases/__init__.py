"""Cases and their parts, users' MLIR modules, and known failures. No code here runs a tool."""
