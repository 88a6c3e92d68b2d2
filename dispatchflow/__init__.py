"""A build system for compiler dispatches, run by doit. It emits MLIR, compiles, verifies and measures.

From Python, `run` executes a command, `read` reads rows of results, and `cases` lists the cases of a spec.
`dispatchflow.microbenchmark` measures compiled modules without a project (docs/python.md)."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dispatchflow.cli.main import main

if TYPE_CHECKING:
    from dispatchflow.interface import cases, read, run

__all__ = ["cases", "main", "read", "run"]


def __getattr__(name: str) -> Any:
    if name in ("read", "run"):  # imported on first use, because commands do not need them
        from dispatchflow import interface

        return getattr(interface, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Package(ModuleType):
    """The type of the module object `dispatchflow`. Its attribute `cases` is always a function.

    When the subpackage `dispatchflow.cases` is imported, Python assigns it to the attribute `cases`. The setter ignores
    this assignment, and the attribute stays the function `interface.cases`."""

    @property
    def cases(self) -> Any:
        from dispatchflow import interface

        return interface.cases

    @cases.setter
    def cases(self, room: ModuleType) -> None:
        pass


sys.modules[__name__].__class__ = _Package
