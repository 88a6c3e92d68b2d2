"""Find the source files that decide an operation's inputs and expected results.

The files are:

- the operation's own file.
- the files of verification/ that compute inputs and expected results.
- mlir/types.py.
- the files of operations/ that the operation's file or the files of verification/ use, directly or indirectly."""

from __future__ import annotations

import re
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_ROOT = Path(__file__).parent.parent
_ALWAYS = ("inputs", "power", "reference", "verdict")
# Imports are found by a search in a file's text, so imports inside functions are found too.
_FROM = re.compile(r"\bfrom\s+(?:dispatchflow\.operations|\.{1,2}(?:operations)?)\s+import\s*(\([^)]*\)|.*)")
_NAMED = re.compile(r"\boperations\.(\w+)|\bfrom\s+\.(\w+)|\b(_[a-z]\w*)")
_OTHERS = re.compile(r"^\s*(?:from\s+([a-zA-Z_]\w*)|import\s+([\w., ]+))", re.MULTILINE)
_INDIFFERENT = {"dispatchflow", "msgspec"}
"""Packages whose versions do not affect inputs or expected results."""


@cache
def of_operation(module: str) -> tuple[str, ...]:
    """Return the paths of the files for one operation, relative to the package.

    `module` is the name of the operation's Python module."""
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
    """Return the files of operations/ that the file `name` uses.

    A public Python file, such as `matmul.py`, is used if the file `name` imports it or contains `operations.matmul`.
    A private one, such as `_random.py`, is used if the word `_random` occurs in the file `name`. A file of another type
    is used if its full name occurs there."""
    if not name.endswith(".py"):
        return []
    text = _text(name)
    words = {word for found in _NAMED.findall(text) for word in found}
    words |= {word for names in _FROM.findall(text) for word in re.findall(r"\w+", names)}
    modules = {word for word in words if (_ROOT / "operations" / f"{word}.py").is_file()} - {Path(name).stem}
    data = {file.name for file in (_ROOT / "operations").iterdir() if file.is_file() and file.suffix != ".py"}
    names = [f"{module}.py" for module in sorted(modules)] + sorted(file for file in data if file in text)
    return [f"operations/{name}" for name in names]


def versions() -> dict[str, str | None]:
    """Return the versions of the installed packages that influence the bytes of inputs, such as numpy."""
    return {name: _version(name) for name in ("ml_dtypes", "numpy")}


@cache
def versions_of(module: str) -> dict[str, str | None]:
    """Return a dict from package name to version, for the packages that an operation's files import.

    numpy and ml_dtypes are always in the dict; the standard library never is. The version of a package that is not
    installed is None. `module` is the name of the operation's Python module."""
    names = set(versions())
    for name in of_operation(module):
        names |= _others(_text(name)) if name.startswith("operations/") and name.endswith(".py") else set()
    return {name: _version(name) for name in sorted(names - sys.stdlib_module_names - _INDIFFERENT)}


def _others(text: str) -> set[str]:
    """Return the top-level packages that a Python text imports: `a` for `from a.b import c`."""
    modules = [name for first, others in _OTHERS.findall(text) for name in (first or others).split(",")]
    return {re.split(r"\W", name.strip())[0] for name in modules} - {""}


@cache
def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@cache
def _text(name: str) -> str:
    return (_ROOT / name).read_text(encoding="utf-8")
