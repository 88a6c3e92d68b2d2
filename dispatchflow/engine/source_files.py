"""Find the source files that decide an operation's inputs and expected results.

They are the operation's own file, the files of verification/ that compute inputs and expected results, and all files of
operations/ that these files import, also indirectly. Imports are found by a search in the text, without executing the
file, and include imports inside functions."""

from __future__ import annotations

import re
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_ROOT = Path(__file__).parent.parent
_ALWAYS = ("inputs", "power", "reference", "verdict")
_FROM = re.compile(r"\bfrom\s+(?:dispatchflow\.operations|\.{1,2}(?:operations)?)\s+import\s*(\([^)]*\)|.*)")
_NAMED = re.compile(r"\boperations\.(\w+)|\bfrom\s+\.(\w+)|\b(_[a-z]\w*)")
_OTHERS = re.compile(r"^\s*(?:from|import)\s+([a-zA-Z_]\w*)", re.MULTILINE)
_INDIFFERENT = {"dispatchflow", "msgspec"}
"""Packages that do not influence the values of inputs and expected results."""


@cache
def of_operation(module: str) -> tuple[str, ...]:
    """Return the source files of the operation in this module, as paths relative to the package."""
    always = [f"verification/{name}.py" for name in _ALWAYS]
    found, open_ = [], [f"operations/{module.rpartition('.')[2]}.py"]
    for name in always:
        open_ += _imported(name)
    while open_:
        if (name := open_.pop()) not in found:
            found.append(name)
            open_ += _imported(name)
    return (*sorted(found), *always, "mlir/types.py")


@cache
def _imported(name: str) -> list[str]:
    """Return the files of operations/ that this file imports.

    A private file counts as imported if its name occurs anywhere in the text, because Python has many forms of imports.
    """
    text = _text(name)
    words = {word for found in _NAMED.findall(text) for word in found}
    words |= {word for names in _FROM.findall(text) for word in re.findall(r"\w+", names)}
    modules = {word for word in words if (_ROOT / "operations" / f"{word}.py").is_file()} - {Path(name).stem}
    return [f"operations/{module}.py" for module in sorted(modules)]


def versions() -> dict[str, str | None]:
    """Return package → version for the packages whose code makes the inputs of every case."""
    return {name: _version(name) for name in ("ml_dtypes", "numpy")}


@cache
def versions_of(module: str) -> dict[str, str | None]:
    """Return package → version for each package that the operation's files import."""
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
