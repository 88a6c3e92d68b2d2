"""A build system for compiler dispatches: emit MLIR → iree-compile → verify → profile, run by doit.

From Python, `run` executes a command, `read` reads its rows, and `cases` lists the cases of a spec.
`dispatchflow.microbenchmark` measures compiled modules without a project (docs/python.md).
"""

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
    """The type of this package, whose attribute `cases` is the function `interface.cases`.

    The import of the subpackage `cases` would replace the function by the subpackage. The setter prevents that."""

    @property
    def cases(self) -> Any:
        from dispatchflow import interface

        return interface.cases

    @cases.setter
    def cases(self, room: ModuleType) -> None:
        pass


sys.modules[__name__].__class__ = _Package
