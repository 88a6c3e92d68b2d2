"""Import the classes of a registry, which is a folder of Python files.

Each public file of the folder, except `api.py`, defines one subclass of the folder's base class.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TypeVar, cast

from dispatchflow.errors import DispatchflowError

T = TypeVar("T")


FACE = "api"
"""The name of the file with a registry's base class, without `.py`.

For example, `operations/api.py` defines `Operation`. The registry `cli/commands` has no such file, because its base
class is defined elsewhere."""

HINT = "docs/adding.md describes what such a file needs."


def members(package: str, base: Callable[..., T], word: str | None = None, suffix: str = "") -> list[type[T]]:
    """Return one subclass of `base` from each public file of a package, sorted by file name.

    The file `matmul.py` must define the class `Matmul`.

    Args:
        word: the name of a class attribute. Its value must be the name of the file without `.py`.
        suffix: the end of each class's name. With `Command`, the file `list.py` must define `ListCommand`.

    Raises:
        DispatchflowError: a file cannot be imported, or its class is missing or wrong.
    """
    assert isinstance(base, type)  # declared as a Callable, because mypy refuses an abstract class as type[T]
    found: list[type[T]] = []
    folder = importlib.import_module(package).__file__
    assert folder is not None
    for path in sorted(Path(folder).parent.glob("[!_]*.py")):
        if path.stem == FACE:
            continue
        module = _imported(f"{package}.{path.stem}", path)
        name = "".join(part.capitalize() for part in path.stem.split("_")) + suffix
        cls = getattr(module, name, None)
        if not (isinstance(cls, type) and issubclass(cls, base)):
            classes = [
                key for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__
            ]
            facts = {"file": path, "defines": ", ".join(classes) or "nothing"}
            raise DispatchflowError(f"{path.name} must define class {name}({base.__name__})", facts, HINT)
        if lacking := _lacking(cls):
            raise DispatchflowError(f"class {name} is incomplete", {"file": path, "missing": ", ".join(lacking)}, HINT)
        if word is not None and getattr(cls, word) != path.stem:
            said = f"{word} = {getattr(cls, word)!r}"
            raise DispatchflowError(f"class {name} is not named like its file", {"file": path, "says": said}, HINT)
        found.append(cast(type[T], cls))
    return found


def _imported(name: str, path: Path) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:
        facts = {"file": path, "found": f"{type(error).__name__}: {error}"}
        raise DispatchflowError(f"{path.name} cannot be imported", facts, HINT) from error


def _lacking(cls: type) -> list[str]:
    """Return the abstract methods of `cls`, and its class variables without a value."""
    declared = {
        word
        for base in cls.__mro__
        for word, type_ in vars(base).get("__annotations__", {}).items()
        if str(type_).startswith(("ClassVar", "typing.ClassVar")) and not hasattr(cls, word)
    }
    return sorted(declared | set(getattr(cls, "__abstractmethods__", ())))
