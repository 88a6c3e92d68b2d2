"""Find the Python bindings of an IREE compiler, and a Python interpreter that can import them."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from dispatchflow.iree.toolchain import Toolchain

NO_BINDINGS = 3
"""The exit code of the script `models/_script.py` if iree.compiler cannot be imported."""

NONE = "this toolchain has no Python bindings (iree.compiler.ir)"
HINT = (
    "A release (iree=3.13.0) and an environment with iree-base-compiler have them. If an earlier version of "
    "dispatchflow fetched this release, fetch it again: doit toolchains remove=VERSION."
)


@dataclass(frozen=True, slots=True)
class Bindings:
    """A Python interpreter, and the directory from which the interpreter imports iree.compiler."""

    python: str
    folder: str


def bindings_of(toolchain: Toolchain) -> Bindings:
    """Return the bindings of the toolchain's compiler, and the interpreter of their Python environment.

    If the bindings belong to no Python environment, as in a build tree, the interpreter is that of this process.

    Raises:
        OSError: the toolchain has no bindings."""
    folder = Path(toolchain.compiler).parent
    for place in (*folder.parents[2:3], folder.parent / "compiler/bindings/python"):
        if (place / "iree/compiler/ir.py").exists() and any((place / "iree/compiler/_mlir_libs").glob("_mlir*.so")):
            return Bindings(_python_of(place), os.fspath(place))
    raise FileNotFoundError(f"{NONE}. {HINT}")


def _python_of(place: Path) -> str:
    """Return the interpreter of the Python environment to which the directory `place` belongs.

    If `place` is not the site-packages of an environment, return the interpreter of this process."""
    root, python = place.parent.parent.parent, place.parent.parent.parent / "bin" / place.parent.name
    return os.fspath(python) if root != Path(sys.prefix) and os.access(python, os.X_OK) else sys.executable
