"""A build system for compiler dispatches: emit MLIR → iree-compile → verify → profile, run by doit."""

from dispatchflow.cli.main import main

__all__ = ["main"]
