"""The words of a sweep of `operation = "module"` → modules. Files are read through what the caller gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Any

from dispatchflow import module
from dispatchflow.errors import SpecError, suggestion
from dispatchflow.keys import digest_of
from dispatchflow.module import RECIPES, File, Input, Module
from dispatchflow.targets import Target

Read = Callable[[str], tuple[str, bytes]]
"""A path relative to the spec → (where it is, its bytes). Raises OSError."""

FIELDS: list[tuple[str, Any, Any]] = [
    ("file", str | list[str] | None, None),
    ("function", str | list[str] | None, None),
    ("inputs", list[str] | None, None),
    ("expected", list[str] | None, None),
    ("reference", str | None, None),
    ("rtol", float | None, None),
    ("name", str | None, None),
]

_INPUT_FORMS = "4x8xf32, 4x8xf32=random|integers|0.5|1 2 3, @file.npy, 4x8xf32=@file.bin, 5 (a number)"


def modules(words: Any, against: Target | None, place: str, at: Callable[[str], str], read: Read) -> tuple[Module, ...]:
    """One for each function of each file, compared with what the target `against` makes of it.

    Raises:
        SpecError: a file that cannot be read, an input that is not understood, a function that is not there.
    """
    files = [words.file] if isinstance(words.file, str) else words.file or []
    if not files:
        raise SpecError("module needs a file", {"spec": place}, 'Write file = "my.mlir", relative to the spec.')
    if words.expected is not None and words.reference is not None:
        facts = {"spec": at("reference"), "expected": ", ".join(words.expected)}
        raise SpecError("both 'expected' and 'reference' are given", facts, "Give one of them.")
    inputs = None if words.inputs is None else tuple(_input(text, at("inputs"), read) for text in words.inputs)
    expected = tuple(file(name, at("expected"), read)[0] for name in words.expected or ())
    found = []
    for name in files:
        source, content = file(name, at("file"), read)
        title = words.name or PurePath(name).stem
        for entry in _entries(words.function, content, name, at("function")):
            rtol = None if words.rtol is None else repr(words.rtol)
            found.append(Module(source, title, entry, inputs, expected, against, rtol))
    return tuple(found)


def file(name: str, place: str, read: Read) -> tuple[File, bytes]:
    """A file that a spec names, and its content.

    Raises:
        SpecError: it cannot be read.
    """
    try:
        path, content = read(name)
    except (OSError, ValueError) as error:
        facts = {"spec": place, "file": name, "found": getattr(error, "strerror", None) or error}
        raise SpecError("a file cannot be read", facts, "Paths are relative to the spec's directory.") from error
    return File(path, digest_of(content)), content


def _entries(written: str | Sequence[str] | None, content: bytes, name: str, place: str) -> list[str]:
    public = module.functions(content.decode(errors="replace"))
    if written is None:
        if not public:
            facts = {"spec": place, "file": name}
            raise SpecError("no function is seen in this file", facts, 'Name one: function = "main".')
        return public
    wanted = [written] if isinstance(written, str) else list(written)
    for entry in wanted if public else ():  # bytecode is not read here
        if entry not in public:
            facts = {"spec": place, "file": name, "functions": ", ".join(public)}
            raise SpecError(f"no public function '{entry}'", facts, suggestion(entry, public))
    return wanted


def _input(text: str, place: str, read: Read) -> Input:
    kind, equals, value = (part.strip() for part in text.partition("="))
    if not equals and (kind.startswith("@") or _is_number(kind) or kind in RECIPES):
        kind, value = "", kind  # its type is the function's, or the file's
    if kind and not (module.is_scalar(kind) or module.shape_of(kind)):
        raise SpecError(f"'{kind}' is no type", {"spec": place, "found": text, "allowed": _INPUT_FORMS}, "")
    if value.startswith("@"):
        if not kind and not value.endswith(".npy"):
            facts = {"spec": place, "found": text}
            raise SpecError("a raw file needs its type", facts, f"Write 4x8xf32={value}.")
        return Input(kind or None, None, file(value[1:], place, read)[0])
    value = value or RECIPES[0]
    if value not in RECIPES and not all(map(_is_number, value.replace(",", " ").split())):
        facts = {"spec": place, "found": text, "allowed": _INPUT_FORMS}
        raise SpecError(f"'{value}' is no input", facts, suggestion(value, RECIPES))
    return Input(kind or None, value)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
