"""The files that decide an operation's inputs and expected results: its own, and all that it imports of the folder.

Imports are found in the text: what a function imports late counts too, and nothing is loaded for it.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_ROOT = Path(__file__).parent.parent
_ALWAYS = ("inputs", "power", "reference", "verdict")
_FROM = re.compile(r"^\s*from\s+(?:dispatchflow\.operations|\.)\.?([\w.]*)\s+import\s*(\([^)]*\)|.*)", re.MULTILINE)
_OTHERS = re.compile(r"^\s*(?:from|import)\s+([a-zA-Z_]\w*)", re.MULTILINE)
_INDIFFERENT = {"dispatchflow", "msgspec"}
"""What no number depends on."""


@cache
def of_operation(module: str) -> tuple[str, ...]:
    """Paths below the package, of the operation that this module defines."""
    found, open_ = [], [f"operations/{name}.py" for name in (module.rpartition(".")[2], "_exact", "_random")]
    while open_:
        if (name := open_.pop()) not in found:
            found.append(name)
            open_ += _imported(name)
    return (*sorted(found), *(f"verification/{name}.py" for name in _ALWAYS), "mlir/types.py")


@cache
def _imported(name: str) -> list[str]:
    """The files of operations/ that this one imports."""
    modules = set()
    for module, names in _FROM.findall(_text(name)):
        words = [module.partition(".")[0]] if module else re.findall(r"\w+", names)
        modules |= {word for word in words if (_ROOT / "operations" / f"{word}.py").is_file()}
    return [f"operations/{module}.py" for module in sorted(modules)]


def versions() -> dict[str, str | None]:
    """Of what all inputs are made with."""
    return {name: _version(name) for name in ("ml_dtypes", "numpy")}


@cache
def versions_of(module: str) -> dict[str, str | None]:
    """Package → version, of each package that these files import."""
    names = set(versions())
    for name in of_operation(module):
        names |= set(_OTHERS.findall(_text(name))) if name.startswith("operations/") else set()
    return {name: _version(name) for name in sorted(names - sys.stdlib_module_names - _INDIFFERENT)}


@cache
def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@cache
def _text(name: str) -> str:
    return (_ROOT / name).read_text(encoding="utf-8")
