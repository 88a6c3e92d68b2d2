"""A folder is a registry: each public file holds one subclass of the folder's base."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, cast

T = TypeVar("T")


def members(package: str, base: Callable[..., T]) -> list[type[T]]:
    """The subclasses of `base` that the package's public files define, in the order of the files' names.

    Raises:
        LookupError: a file that defines none, or a class not named as its file: `matmul.py` holds `Matmul`.
    """
    assert isinstance(base, type)  # a Callable to mypy, which refuses an abstract class as type[T]
    found: list[type[T]] = []
    folder = importlib.import_module(package).__file__
    assert folder is not None
    for path in sorted(Path(folder).parent.glob("[!_]*.py")):
        module = importlib.import_module(f"{package}.{path.stem}")
        name = "".join(word.capitalize() for word in path.stem.split("_"))
        cls = getattr(module, name, None)
        if not (isinstance(cls, type) and issubclass(cls, base)):
            raise LookupError(f"{path.name} must define class {name}({base.__name__})")
        found.append(cast(type[T], cls))
    return found
