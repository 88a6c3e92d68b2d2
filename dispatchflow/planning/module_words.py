"""Make modules from the words of a sweep of `operation = "module"`; the caller gives a file reader."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from math import inf
from pathlib import PurePath
from typing import Any, Protocol

from dispatchflow.cases import literals, module, ranges
from dispatchflow.cases.module import RECIPES, File, Input, Module, Parameters
from dispatchflow.errors import SpecError, suggestion
from dispatchflow.iree import parameters
from dispatchflow.iree.targets import Target
from dispatchflow.keys import Digest, digest_of
from dispatchflow.mlir.functions import callable_name, functions, is_bytecode, mentions
from dispatchflow.models import onnx_file
from dispatchflow.planning import archives
from dispatchflow.planning.location import Location
from dispatchflow.workload import ENTRY


class Read(Protocol):
    """Reads files by their paths relative to the spec. It raises OSError."""

    def __call__(self, name: str, /) -> tuple[str, bytes]:
        """Return (its place, its bytes)."""
        ...

    def digest(self, name: str, /) -> tuple[str, Digest]:
        """Return (its place, the digest of its bytes), without holding a large file in memory."""
        ...


FIELDS: list[tuple[str, Any, Any]] = [
    ("file", str | list[str] | None, None),
    ("function", str | list[str] | None, None),
    ("inputs", str | list[str] | None, None),
    ("parameters", str | list[str] | None, None),
    ("expected", str | list[str] | None, None),
    ("reference", str | None, None),
    ("rtol", float | None, None),
    ("name", str | None, None),
]

_INPUT_FORMS = "4x8xf32, 4x8xf32=random|integers|0..15|0.5|1 2 3, @file.npy, 4x8xf32=@file.bin, 5 (a number)"


def modules(words: Any, against: Target | None, place: Location, read: Read) -> tuple[Module, ...]:
    """Return a module for each function of each file, with `against` as the target of its reference.

    Raises:
        SpecError: a file cannot be read, an input is not understood, or a function is missing.
    """
    if not (files := _list(words.file)):
        hint = f"Write {place.spelt('file', 'my.mlir')}, relative to {place.folder}."
        raise SpecError("module needs a file", {"spec": place.sweep}, hint)
    if words.expected is not None and words.reference is not None:
        facts = {"spec": place.at("reference"), "expected": ", ".join(_list(words.expected))}
        raise SpecError("both 'expected' and 'reference' are given", facts, "Give one of them.")
    if words.rtol is not None and not 0 <= words.rtol < inf:
        raise SpecError(f"rtol cannot be {words.rtol}", {"spec": place.at("rtol"), "allowed": "0 or more, finite"}, "")
    inputs = (
        None
        if words.inputs is None
        else tuple(item for text in _list(words.inputs) for item in _inputs(text, place, read))
    )
    expected = tuple(item for word in _list(words.expected) for item in _expected(word, place, read))
    weights = tuple(_parameters(word, place, read) for word in _list(words.parameters))
    for word, item in zip(_list(words.parameters), weights, strict=True):
        if weights.count(item) > 1:
            raise SpecError("parameters are given twice", {"spec": place.at("parameters"), "found": word})
    found = []
    for name in files:
        source, content = file(name, "file", place, read)
        importer = "onnx" if name.endswith(onnx_file.ENDING) else None
        if (library := _library(words.reference)) is not None and importer is None:
            facts = {"spec": place.at("reference"), "file": name}
            raise SpecError(f"{library} runs ONNX models only", facts, "Name a target: vmvx, llvm-cpu, …")
        title, objects = words.name or PurePath(name).stem, _objects(name, content, read, importer)
        for entry in _entries(words.function, content, name, place, importer):
            if not callable_name(entry):
                facts = {"spec": place.at("file"), "file": name, "function": repr(entry)}
                hint = f"Rename it (UTF-8 without a zero byte), or name another one: {place.spelt('function', 'main')}."
                raise SpecError("a function cannot be called", facts, hint)
            rtol = None if words.rtol is None else repr(words.rtol)
            found.append(
                Module(source, title, entry, inputs, expected, against, rtol, objects, weights, importer, library)
            )
    return tuple(found)


def _library(reference: str | None) -> str | None:
    """Return the library that a reference names; None if it names a target, or nothing."""
    return reference if reference == module.ONNXRUNTIME else None


def _list(written: str | list[str] | None) -> list[str]:
    """Return the words as a list; they are not split, since names and inputs may have commas and spaces."""
    return [written] if isinstance(written, str) else written or []


def file(name: str, word: str, place: Location, read: Read) -> tuple[File, bytes]:
    """Return a file that a sweep names in `word`, and its content.

    Raises:
        SpecError: the file cannot be read.
    """
    try:
        path, content = read(name)
    except (OSError, ValueError) as error:
        raise _unreadable(name, word, place, error) from error
    return File(path, digest_of(content)), content


def _unreadable(name: str, word: str, place: Location, error: Exception) -> SpecError:
    facts = {"spec": place.at(word), "file": name, "found": getattr(error, "strerror", None) or error}
    return SpecError("a file cannot be read", facts, place.paths)


def _parameters(written: str, place: Location, read: Read) -> Parameters:
    """Return the file with weights that is written as `scope=file`, or as `file` if the scope is empty."""
    scope, equals, name = written.partition("=")
    scope, name = (scope.strip(), name.strip()) if equals else ("", written.strip())
    ending = PurePath(name).suffix
    if ending not in parameters.FORMATS:
        facts = {"spec": place.at("parameters"), "found": written, "formats": ", ".join(parameters.FORMATS)}
        hint = (
            f"Write {place.listed('parameters', ['model=weights.irpa'])}: the scope that the module names, and a file."
        )
        raise SpecError("the format of these parameters is not known", facts, hint)
    try:
        path, digest = read.digest(name)
    except (OSError, ValueError) as error:
        raise _unreadable(name, "parameters", place, error) from error
    return Parameters(scope, File(path, digest), ending)


def _members(written: str, word: str, place: Location, read: Read) -> list[File] | None:
    """Return the arrays of `ref.npz:in*`; None if `written` names no archive."""
    if (split := archives.split(written)) is None:
        return None
    path, pattern = split
    whole, content = file(path, word, place, read)
    try:
        names = archives.members(content)
    except ValueError as error:
        raise SpecError("an archive cannot be read", {"spec": place.at(word), "file": path, "found": error}) from error
    if not (chosen := archives.chosen(names, pattern)):
        facts = {"spec": place.at(word), "found": written, "members": ", ".join(names) or "none"}
        problem = f"{path} has no member '{pattern}'" if pattern else "the members of an archive are to be named"
        raise SpecError(problem, facts, f"Name one, or several by a pattern: @{path}:{names[0] if names else 'in'}*.")
    return [replace(whole, member=name) for name in chosen]


def _expected(written: str, place: Location, read: Read) -> list[File | str]:
    """Return the expected results in one word: several, if it names members of an archive."""
    if _is_number(written):
        return [written]
    kind, equals, name = (part.strip() for part in written.partition("="))
    if equals and name.startswith("@") and module.shape_of(kind):
        return [replace(file(name[1:], "expected", place, read)[0], type=kind)]
    name = written.removeprefix("@")
    found = _members(name, "expected", place, read) or [file(name, "expected", place, read)[0]]
    return [*found]


def _inputs(written: str, place: Location, read: Read) -> list[Input]:
    """Return the inputs in one word: several, if it names members of an archive."""
    members = _members(written[1:], "inputs", place, read) if written.startswith("@") else None
    if members is None:
        return [_input(written, place, read)]
    return [Input(None, None, member) for member in members]


def _objects(name: str, content: bytes, read: Read, importer: str | None) -> tuple[tuple[str, File], ...]:
    """Return the files that a module names, relative to its own folder.

    A file that cannot be read is left out. If the module needs it, printing fails, and with it only this case."""
    found = []
    named = onnx_file.weight_files(content) if importer else module.objects(content.decode(errors="replace"))
    for written in named:
        with suppress(OSError, ValueError):
            path, linked = read(os.path.join(os.path.dirname(name), written))  # noqa: PTH118, PTH120 (`..` stays)
            found.append((written, File(path, digest_of(linked))))
    return tuple(found)


def _entries(
    written: str | list[str] | None, content: bytes, name: str, place: Location, importer: str | None
) -> list[str]:
    text = "" if importer else content.decode(errors="replace")
    public = [onnx_file.function(content)] if importer else functions(text)
    if written is None:
        if not public and not is_bytecode(content):
            return [ENTRY]  # an error in the file is the failure of this one case
        if not public:
            facts = {"spec": place.at("file"), "file": name}
            raise SpecError(
                "the functions of bytecode cannot be listed", facts, f"Name one: {place.spelt('function', 'main')}."
            )
        return public
    wanted = _list(written)
    for entry in wanted if public else ():  # bytecode is not read here
        if entry not in public and not mentions(text, entry):  # else the printed module decides
            facts = {"spec": place.at("function"), "file": name, "functions": ", ".join(public)}
            raise SpecError(f"no public function '{entry}'", facts, suggestion(entry, public))
    return wanted


def _input(text: str, place: Location, read: Read) -> Input:
    at = place.at("inputs")
    kind, equals, value = (part.strip() for part in text.partition("="))
    if not equals and (kind.startswith("@") or _is_number(kind) or kind in RECIPES or ranges.bounds(kind)):
        kind, value = "", kind  # the function or the file has the type
    if kind and not (module.is_scalar(kind) or module.shape_of(kind)):
        facts = {"spec": at, "found": text, "allowed": _INPUT_FORMS}
        raise SpecError(f"'{kind}' is not a type", facts, _several(place))
    if value.startswith("@"):
        if kind and archives.split(value[1:]):
            facts = {"spec": at, "found": text}
            raise SpecError("an array of an archive has a type of its own", facts, f"Write {value}.")
        if not kind and not value.endswith(".npy"):
            facts = {"spec": at, "found": text}
            raise SpecError("a raw file needs its type", facts, f"Write 4x8xf32={value}.")
        return Input(kind or None, None, file(value[1:], "inputs", place, read)[0])
    value = value or RECIPES[0]
    if ranges.bounds(value) is not None:
        try:
            ranges.check(value, module.element_of(kind))
        except ValueError as error:
            raise SpecError(str(error), {"spec": at, "found": text}) from error
        return Input(kind or None, value)
    if value not in RECIPES and not all(map(_is_number, literals.words(value))):
        facts = {"spec": at, "found": text, "allowed": _INPUT_FORMS}
        raise SpecError(f"'{value}' is not an input", facts, suggestion(value, RECIPES) or _several(place))
    element = module.element_of(kind)
    if value not in RECIPES and literals.is_integer(element):
        for word in literals.words(value):
            try:
                literals.integer(word, element)
            except ValueError as error:
                raise SpecError(str(error), {"spec": at, "found": text}) from error
    return Input(kind or None, value)


def _several(place: Location) -> str:
    inputs = ["4x8xf32", "5"]
    return f"Write several inputs as {place.listed('inputs', inputs)}."


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
