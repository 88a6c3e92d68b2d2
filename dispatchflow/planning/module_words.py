"""Make `Module` objects from a sweep with `operation = "module"`.

A `Module` object stands for a function of a user's own MLIR or ONNX file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from pathlib import PurePath
from typing import Any

from dispatchflow.cases import literals, module, ranges
from dispatchflow.cases.module import RECIPES, File, Input, Module, Parameters
from dispatchflow.errors import SpecError, suggestion
from dispatchflow.iree import parameters
from dispatchflow.iree.targets import Target
from dispatchflow.keys import digest_of
from dispatchflow.mlir.functions import callable_name
from dispatchflow.models import onnx_file
from dispatchflow.planning import archives, module_files
from dispatchflow.planning.location import Location
from dispatchflow.planning.reading import Read
from dispatchflow.units import is_number


@dataclass(frozen=True, slots=True)
class Given:
    """The values that a spec gives for a call of a user's module: inputs, expected results and weights."""

    inputs: tuple[Input, ...] | None = None
    expected: tuple[File | str, ...] = ()
    parameters: tuple[Parameters, ...] = ()


FIELDS: list[tuple[str, Any, Any]] = [
    ("file", str | list[str] | None, None),
    ("suite", str | list[str] | None, None),
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
    """Return one `Module` for each requested function of each file that a sweep names.

    `words` has the sweep's keys as attributes, such as `words.file`; the types of their values are already checked.
    `against` is the target that computes the expected results; None if there is no such target.

    Raises:
        SpecError: a value is not valid, a file cannot be read, or a function cannot be found or called.
    """
    if not (files := listed(words.file)):
        hint = f"Write {place.spelt('file', 'my.mlir')}, relative to {place.folder}."
        raise SpecError("module needs a file", {"spec": place.sweep}, hint)
    check_rtol(words.rtol, place)
    if words.expected is not None and words.reference is not None:
        facts = {"spec": place.at("reference"), "expected": ", ".join(listed(words.expected))}
        raise SpecError("both 'expected' and 'reference' are given", facts, "Give one of them.")
    given = Given(
        None
        if words.inputs is None
        else tuple(item for text in listed(words.inputs) for item in inputs(text, place, read)),
        tuple(item for word in listed(words.expected) for item in expected(word, place, read)),
        tuple(weights(word, place, read) for word in listed(words.parameters)),
    )
    for word, item in zip(listed(words.parameters), given.parameters, strict=True):
        if given.parameters.count(item) > 1:
            raise SpecError("parameters are given twice", {"spec": place.at("parameters"), "found": word})
    library = _library(words.reference)
    return tuple(
        found
        for name in files
        for found in of_file(
            name, words.name or PurePath(name).stem, words.function, given, against, words.rtol, library, place, read
        )
    )


def check_rtol(rtol: float | None, place: Location) -> None:
    """Raise SpecError if the relative tolerance `rtol` is negative or not finite."""
    if rtol is not None and not 0 <= rtol < inf:
        raise SpecError(f"rtol cannot be {rtol}", {"spec": place.at("rtol"), "allowed": "0 or more, finite"}, "")


def of_file(
    name: str,
    title: str,
    function: str | list[str] | None,
    given: Given,
    against: Target | None,
    rtol: float | None,
    library: str | None,
    place: Location,
    read: Read,
    problem: str | None = None,
) -> list[Module]:
    """Return a `Module` for each wanted function of a user's MLIR or ONNX file.

    Args:
        name: the path of the file.
        title: the name that stands for the file in the names of cases.
        function: the wanted functions; None for all public ones.
        against: the target that computes the expected results, if there is one.
        rtol: the relative tolerance, if the spec gives one.
        library: the library that computes the expected results, if there is one.
        problem: the reason why the inputs are unknown; None if they are known.

    Raises:
        SpecError: the file cannot be read, its functions cannot be found or called, or `library` is given for an MLIR
            file.
    """
    source, content = file(name, "file", place, read)
    importer = "onnx" if name.endswith(onnx_file.ENDING) else None
    if library is not None and importer is None:
        facts = {"spec": place.at("reference"), "file": name}
        raise SpecError(f"{library} runs ONNX models only", facts, "Name a target: vmvx, llvm-cpu, …")
    objects = module_files.objects(name, content, read, importer)
    known, tolerance = (given.inputs, given.expected), None if rtol is None else repr(rtol)
    found = []
    for entry in module_files.entries(listed(function), content, name, place, importer):
        if not callable_name(entry):
            facts = {"spec": place.at("file"), "file": name, "function": repr(entry)}
            hint = (
                f"Rename the function (UTF-8 without a zero byte), or name another: {place.spelt('function', 'main')}."
            )
            raise SpecError("a function cannot be called", facts, hint)
        found.append(
            Module(
                source, title, entry, *known, against, tolerance, objects, given.parameters, importer, library, problem
            )
        )
    return found


def _library(reference: str | None) -> str | None:
    return reference if reference == module.ONNXRUNTIME else None


def listed(written: str | list[str] | None) -> list[str]:
    """Return the values of a key as a list. A single text becomes a list with one item.

    The text is not split, because a value may contain commas and spaces."""
    return [written] if isinstance(written, str) else written or []


def file(name: str, word: str, place: Location, read: Read) -> tuple[File, bytes]:
    """Read the file `name`. Return its path and digest as a `File`, and its bytes.

    Error messages mention `word`, the key under which the sweep names the file.

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
    return SpecError("a file cannot be read", facts, place.paths(word))


def weights(written: str, place: Location, read: Read) -> Parameters:
    """Parse one value of the key `parameters`, which names a file with weights.

    The value is `FILE` or `SCOPE=FILE`. The scope is the name by which the module refers to the weights.

    Raises:
        SpecError: the format of the file is not known, or the file cannot be read.
    """
    form = place.listed("parameters", ["model=weights.irpa"])
    scope, name = parameters.checked(written, {"spec": place.at("parameters")}, form)
    try:
        path, digest = read.digest(name)
    except (OSError, ValueError) as error:
        raise _unreadable(name, "parameters", place, error) from error
    return Parameters(scope, File(path, digest), PurePath(name).suffix)


def _members(written: str, word: str, place: Location, read: Read) -> list[File] | None:
    """Return the arrays that a text such as `ref.npz:in*` selects from a `.npz` file.

    Returns None if `written` does not name a `.npz` file. Error messages mention `word`, the key under which the sweep
    names the file."""
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


def expected(written: str, place: Location, read: Read) -> list[File | str]:
    """Return the expected results that one value of the key `expected` gives.

    The value is a number, a file (`y.npy`, `4x8xf32=@y.bin`), or arrays of a `.npz` file (`y.npz:out*`).

    Raises:
        SpecError: a file cannot be read, or a `.npz` file has no such array.
    """
    if is_number(written):
        return [written]
    kind, equals, name = (part.strip() for part in written.partition("="))
    if equals and name.startswith("@") and module.shape_of(kind):
        return [replace(file(name[1:], "expected", place, read)[0], type=kind)]
    name = written.removeprefix("@")
    found = _members(name, "expected", place, read) or [file(name, "expected", place, read)[0]]
    return [*found]


def inputs(written: str, place: Location, read: Read) -> list[Input]:
    """Return the inputs that one value of the key `inputs` describes.

    A value such as `@data.npz:in*` describes one input for each matching array. Any other value describes one input.

    Raises:
        SpecError: the value cannot be parsed, or the file that it names cannot be read.
    """
    members = _members(written[1:], "inputs", place, read) if written.startswith("@") else None
    if members is None:
        return [_input(written, place, read)]
    return [Input(None, None, member) for member in members]


def _input(text: str, place: Location, read: Read) -> Input:
    at = place.at("inputs")
    kind, equals, value = (part.strip() for part in text.partition("="))
    if not equals and (kind.startswith("@") or is_number(kind) or kind in RECIPES or ranges.bounds(kind)):
        kind, value = "", kind  # the type is known from the function or the file
    if kind and not (module.is_scalar(kind) or module.shape_of(kind)):
        facts = {"spec": at, "found": text, "allowed": _INPUT_FORMS}
        raise SpecError(f"'{kind}' is not a type", facts, _file_hint(kind) or _several(place))
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
    if value not in RECIPES and not all(map(is_number, literals.words(value))):
        facts = {"spec": at, "found": text, "allowed": _INPUT_FORMS}
        hint = suggestion(value, RECIPES) or _file_hint(value) or _several(place)
        raise SpecError(f"'{value}' is not an input", facts, hint)
    element = module.element_of(kind)
    if value not in RECIPES and literals.is_integer(element):
        for word in literals.words(value):
            try:
                literals.integer(word, element)
            except ValueError as error:
                raise SpecError(str(error), {"spec": at, "found": text}) from error
    return Input(kind or None, value)


def _file_hint(value: str) -> str:
    return f"To read an input from a file, write @{value}." if PurePath(value).suffix[1:].isalpha() else ""


def _several(place: Location) -> str:
    inputs = ["4x8xf32", "5"]
    return f"Write several inputs as {place.listed('inputs', inputs)}."
