"""TOML → sweeps, typed and located: every error names file, line, place, what was found and what is allowed."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, TypeVar

import msgspec

from dispatchflow import flags, module_spec
from dispatchflow.axes import Axis, AxisError, axis
from dispatchflow.errors import SpecError, suggestion
from dispatchflow.location import Location
from dispatchflow.module import Module
from dispatchflow.operations import OPERATIONS, OPTIONS, Operation, Option
from dispatchflow.program import Program
from dispatchflow.providers import IREE, PROVIDERS
from dispatchflow.rotation import CACHES, HOT
from dispatchflow.shapes import Shape, classes, classes_of
from dispatchflow.targets import HINTS, TARGETS, Target
from dispatchflow.tunings import TUNINGS, GivenFile, Tuning
from dispatchflow.types import Signature, signature

T = TypeVar("T")
PROGRAMS: dict[str, type[Program]] = {**OPERATIONS, Module.name: Module}

# What a sweep may say. Values are checked below, where the allowed ones are known.
_Words = str | list[str]
_OPERATION_FIELDS: list[tuple[str, Any, Any]] = [  # beside its dims
    ("dtype", _Words, None),
    ("layout", _Words, None),
    ("shape", _Words, None),
]
_FIELDS: list[tuple[str, Any, Any]] = [
    ("tuning", str | dict[str, Any] | list[str | dict[str, Any]], "default"),
    ("target", _Words, "llvm-cpu"),
    ("threads", int | str | list[int | str], "all"),
    ("flags", _Words, ""),
    ("provider", _Words, IREE),
    ("cache", _Words, HOT),
    ("tags", _Words, ()),
    ("include", _Words, ()),
    ("exclude", _Words, ()),
]


@dataclass(frozen=True, slots=True)
class Sweep:
    """One `[[sweep]]` table: axes whose product, filtered, is a set of cases. `shapes` stands for the dims' product;
    `modules` for all of an operation's axes."""

    operation: type[Program]
    dims: tuple[Axis, ...]
    shapes: tuple[Shape, ...]
    signatures: tuple[Signature, ...]
    layouts: tuple[str, ...]
    options: dict[str, tuple[str | int, ...]]
    modules: tuple[Module, ...]
    tunings: tuple[Tuning, ...]
    targets: tuple[Target, ...]
    threads: tuple[int | None, ...]
    flags: tuple[flags.Flags, ...]
    providers: tuple[str, ...]
    caches: tuple[str, ...]
    tags: tuple[str, ...]
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    place: str
    """`specs/matmul.toml:3, sweep[0]`"""


def _no_files(path: str) -> tuple[str, bytes]:
    raise OSError(f"no file can be named here: {path}")


def parse(text: str, path: PurePath, overrides: Mapping[str, Any], read: module_spec.Read = _no_files) -> list[Sweep]:
    """The sweeps of one spec file; `overrides` replace a word of the same name in every sweep that knows it. `read`
    reads the files that it names.

    Raises:
        SpecError: naming file, line and place.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SpecError("this spec is not TOML", {"spec": path, "found": error}, "See https://toml.io.") from error
    unknown = sorted(set(document) - {"sweep"})
    if unknown or not isinstance(document.get("sweep", []), list):
        word = unknown[0] if unknown else "sweep"
        begins = re.compile(rf"\W*{re.escape(word)}\b")
        line = next((number for number, line in enumerate(text.splitlines(), 1) if begins.match(line)), 1)
        facts = {"spec": f"{path}:{line}", "allowed": "[[sweep]] tables"}
        raise SpecError(f"unknown word '{word}'", facts, suggestion(word, ["sweep"]))
    lines = [number for number, line in enumerate(text.splitlines(), 1) if re.match(r"\s*\[\[\s*sweep\s*\]\]", line)]
    sweeps = []
    for index, table in enumerate(document.get("sweep", [])):
        where = f"{path}:{lines[index]}" if index < len(lines) else str(path)
        known = {word: value for word, value in overrides.items() if not _of_other_programs(word, table)}
        sweeps.append(sweep({**table, **known}, f"{where}, sweep[{index}]", read))
    return sweeps


def _of_other_programs(word: str, table: Mapping[str, Any]) -> bool:
    """dtype=f16 for all sweeps leaves the modules as they are, and stride=2 what has no stride."""
    if table.get("operation") == Module.name:
        return word in (name for name, *_ in _OPERATION_FIELDS) or word in OPTIONS
    operation = OPERATIONS.get(str(table.get("operation")))
    return operation is not None and word in OPTIONS and word not in operation.options


def sweep(table: Mapping[str, Any], where: str, read: module_spec.Read = _no_files) -> Sweep:
    """One sweep from its words. `where` it stands, as `Location.sweep`.

    Raises:
        SpecError: an unknown word, a wrong type, a value out of range.
    """
    program, place = _program(table.get("operation"), where), Location(where)
    words, at = _typed(table, program, where), place.at
    for word in ("dtype", "layout", "tuning", "target", "threads", "provider", "cache", "shape"):
        value = getattr(words, word, None)
        if value is not None and value != 0 and not (value.strip() if isinstance(value, str) else value):
            raise SpecError(f"'{word}' is empty", {"spec": at(word)}, "Name at least one, or leave the word out.")
    axes: dict[str, Any] = dict.fromkeys(("dims", "shapes", "signatures", "layouts", "modules"), ()) | {"options": {}}
    if issubclass(program, Operation):
        axes |= _operation_axes(words, program, place)
    else:
        reference = [] if words.reference is None else [words.reference]
        against = next(iter(_chosen(reference, TARGETS, "target", at("reference"))), None)
        axes["modules"] = module_spec.modules(words, against, place, read)
    return Sweep(
        operation=program,
        **axes,
        tunings=_tunings(words.tuning, place, read),
        targets=_chosen(_list(words.target), TARGETS, "target", at("target")),
        threads=tuple(dict.fromkeys(_threads(word, at("threads")) for word in _list(words.threads))),
        flags=_flags(words.flags, place),
        providers=_chosen(
            _list(words.provider), dict(zip(PROVIDERS, PROVIDERS, strict=True)), "provider", at("provider")
        ),
        caches=_chosen(_list(words.cache), dict(zip(CACHES, CACHES, strict=True)), "cache", at("cache")),
        tags=tuple(_list(words.tags)),
        include=tuple(_list(words.include)),
        exclude=tuple(_list(words.exclude)),
        place=where,
    )


def _operation_axes(words: Any, operation: type[Operation], place: Location) -> dict[str, Any]:
    shape, at = words.shape, place.at
    given = [dim for dim in operation.dims if getattr(words, dim) is not None]
    if shape is not None and given:
        raise SpecError(
            "both 'shape' and dims are given", {"spec": at("shape"), "dims": ", ".join(given)}, "Give one of them."
        )
    missing = [dim for dim in operation.dims if shape is None and dim not in given]
    if missing:
        raise SpecError(
            f"{operation.name} needs a size for {', '.join(missing)}",
            {"spec": place.sweep, "dims": ", ".join(operation.dims)},
            f"Add {place.spelt(missing[0], 512)}, or a list, or {_shape_of(512, operation, place)}.",
        )
    layouts = {word: word for word in operation.layouts}
    return {
        "dims": tuple(_axis(getattr(words, dim), at(dim)) for dim in given),
        "shapes": _shapes(words, operation, place),
        "signatures": _signatures(words.dtype, operation, at("dtype")),
        "layouts": _chosen(_list(words.layout or operation.layouts[0]), layouts, "layout", at("layout")),
        "options": {
            word: _values(getattr(words, word), option, word, at(word)) for word, option in operation.options.items()
        },
    }


def _values(written: Any, option: Option, word: str, place: str) -> tuple[str | int, ...]:
    if written is None:
        return (option.default,)
    found = []
    for item in _list(written):
        try:
            found.append(option.parse(item))
        except ValueError as error:
            names = [] if isinstance(option.values, range) else option.values
            facts = {"spec": place, "allowed": error}
            raise SpecError(f"{word} cannot be {item!r}", facts, suggestion(str(item), names)) from error
    if not found:
        raise SpecError(f"'{word}' is empty", {"spec": place}, "Name at least one, or leave the word out.")
    return tuple(dict.fromkeys(found))


def _program(name: object, place: str) -> type[Program]:
    if isinstance(name, str) and name in PROGRAMS:
        return PROGRAMS[name]
    problem = "a sweep names no operation" if name is None else f"unknown operation {name!r}"
    facts = {"spec": f"{place}.operation", "known": ", ".join(PROGRAMS)}
    raise SpecError(problem, facts, suggestion(str(name), PROGRAMS) or f'Write operation = "{next(iter(OPERATIONS))}".')


def _typed(table: Mapping[str, Any], program: type[Program], place: str) -> Any:
    own = [(dim, Any, None) for dim in program.dims]  # `axis` says better what a size may be
    if issubclass(program, Operation):
        own += [*_OPERATION_FIELDS, *[(word, Any, None) for word in program.options]]
    else:
        own += module_spec.FIELDS
    struct = msgspec.defstruct("Sweep", [("operation", str), *own, *_FIELDS], forbid_unknown_fields=True)
    try:
        return msgspec.convert(dict(table), struct)
    except msgspec.ValidationError as error:
        allowed = [field for field in struct.__struct_fields__]
        if unknown := sorted(set(table) - set(allowed)):
            facts = {"spec": f"{place}.{unknown[0]}", "allowed": ", ".join(allowed)}
            raise SpecError(f"unknown word '{unknown[0]}'", facts, suggestion(unknown[0], allowed)) from error
        what, _, where = str(error).partition(" - at `$")
        allowed_type, _, found = what.removeprefix("Expected ").partition(", got ")
        names = (
            allowed_type.replace(" | null", "").replace("array", "list").replace("object", "table").replace("|", "or")
        )
        raise SpecError(
            "wrong type", {"spec": place + where.rstrip("`"), "found": found.strip("`"), "allowed": names}
        ) from error


def _list(value: Any) -> list[Any]:
    """A word or a list of words; a comma separates words too, so that specs and variables read alike."""
    items = value if isinstance(value, list | tuple) else [value]
    split = (item.replace(",", " ").split() if isinstance(item, str) else [item] for item in items)
    return [word for words in split for word in words]


def _chosen(words: Sequence[str], known: Mapping[str, T], what: str, place: str) -> tuple[T, ...]:
    for word in words:
        if word not in known:
            raise SpecError(
                f"unknown {what} '{word}'",
                {"spec": place, "known": ", ".join(known)},
                HINTS.get(word) or suggestion(word, known),
            )
    return tuple(dict.fromkeys(known[word] for word in words))


def _axis(written: object, place: str) -> Axis:
    try:
        return axis(written)
    except AxisError as error:
        raise SpecError("not a size", {"spec": place, "found": error}, "") from error


def _shape_of(size: int, operation: type[Operation], place: Location) -> str:
    return place.spelt("shape", "x".join([str(size)] * len(operation.dims)))


def _shapes(words: Any, operation: type[Operation], place: Location) -> tuple[Shape, ...]:
    """Of `64x80x96`, and of classes by name."""
    found: list[Shape] = []
    for word in _list(words.shape or []):
        sizes = word.split("x")
        if len(sizes) == len(operation.dims) and all(s.isdecimal() and 0 < int(s) < 2**31 for s in sizes):
            found.append(Shape(tuple(map(int, sizes))))
        else:
            found += _class(word, words, operation, place)
    return tuple(dict.fromkeys(found))


def _class(word: str, words: Any, operation: type[Operation], place: Location) -> tuple[Shape, ...]:
    known = classes_of(operation.name)
    if word not in known:
        problem = f"{operation.name} has no shapes '{word}'" if word in classes() else f"'{word}' is not a shape"
        facts = {"spec": place.at("shape"), "form": "x".join(operation.dims), "classes": ", ".join(known) or "none"}
        hint = suggestion(word, known) or f"Write {_shape_of(64, operation, place)}."
        raise SpecError(problem, facts, hint)
    own = dict.fromkeys(option for shape in known[word] for option, _ in shape.options)
    if twice := [option for option in own if getattr(words, option) is not None]:
        facts = {"spec": place.at("shape"), "also given": ", ".join(twice)}
        raise SpecError(f"the shapes of '{word}' say their own {twice[0]}", facts, "Leave one of them out.")
    return known[word]


def _signatures(written: Any, operation: type[Operation], place: str) -> tuple[Signature, ...]:
    known = {**operation.signatures, **{s.spelling: s for s in operation.signatures.values()}}
    words: list[str] = []
    for item in written if isinstance(written, list) else [written or next(iter(operation.signatures))]:
        for word in re.split(r"[;\s]+", re.sub(r"\s*(,|->)\s*", r"\1", item.strip())):
            words += [word] if "->" in word else word.split(",")
    found = []
    for word in words:
        try:
            found.append(known[word] if word in known else known[signature(word).spelling])
        except KeyError:
            facts = {
                "spec": place,
                "known": ", ".join(operation.signatures),
                "spelt": ", ".join(s.spelling for s in operation.signatures.values()),
            }
            raise SpecError(f"{operation.name} has no element types '{word}'", facts, suggestion(word, known)) from None
    return tuple(dict.fromkeys(found))


def _tunings(written: Any, place: Location, read: module_spec.Read) -> tuple[Tuning, ...]:
    found: list[Tuning] = []
    for item in written if isinstance(written, list) else [written]:
        if isinstance(item, str):
            for word in _list(item):
                found += _named_tuning(word, place, read)
            continue
        parameters = dict(item)
        family = parameters.pop("family", None)
        if not isinstance(family, str) or family not in TUNINGS:
            facts = {"spec": place.at("tuning"), "known": ", ".join(TUNINGS)}
            raise SpecError(
                f"unknown tuning family {family!r}",
                facts,
                suggestion(str(family), TUNINGS) or 'Write {family = "…", …}.',
            )
        found += _expanded(TUNINGS[family], parameters, place, read)
    return tuple(dict.fromkeys(found))


def _expanded(
    family: type[Tuning], parameters: dict[str, Any], place: Location, read: module_spec.Read
) -> tuple[Tuning, ...]:
    if family.file_parameter is not None:
        name = parameters.get(family.file_parameter)
        if not isinstance(name, str):
            form = f'{{family = "{family.family}", {family.file_parameter} = "my.mlir"}}'
            hint = f"Write {form}, or {family.family}:my.mlir."
            raise SpecError(f"{family.family} needs a file", {"spec": place.at("tuning")}, hint)
        file, content = module_spec.file(name, "tuning", place, read)
        title = re.sub(r"[^\w-]", "-", PurePath(name).stem, flags=re.ASCII)
        try:
            given = GivenFile(file.path, title, content.decode())
        except UnicodeDecodeError as error:
            facts = {"spec": place.at("tuning"), "file": name, "found": error}
            raise SpecError("this file is no text", facts, "iree-opt prints bytecode as text.") from error
        parameters = {**parameters, family.file_parameter: given}
    try:
        return family.expand(parameters)
    except ValueError as error:
        raise SpecError(f"{family.family} cannot be this", {"spec": place.at("tuning"), "found": error}, "") from error


def _named_tuning(word: str, place: Location, read: module_spec.Read) -> tuple[Tuning, ...]:
    name, _, path = word.partition(":")
    if name in TUNINGS and (not path or TUNINGS[name].file_parameter):
        return _expanded(TUNINGS[name], {TUNINGS[name].file_parameter or "": path} if path else {}, place, read)
    for family in TUNINGS.values():
        if (tuning := family.parse(word)) is not None:
            return (tuning,)
    names = [*TUNINGS, *(tuning.name for family in TUNINGS.values() for tuning in family.expand({}))]
    facts = {"spec": place.at("tuning"), "known": ", ".join(dict.fromkeys(names))}
    raise SpecError(f"unknown tuning '{word}'", facts, suggestion(word, names))


def _flags(written: str | list[str], place: Location) -> tuple[flags.Flags, ...]:
    """A value is all flags of one compile, so that white space and commas separate no values."""
    found = []
    for value in written if isinstance(written, list) else [written]:
        try:
            found.append(flags.parse(value))
        except ValueError as error:
            facts = {"spec": place.at("flags"), "found": error}
            hint = f"Write {place.spelt('flags', '--iree-opt-level=O2')}."
            raise SpecError("these cannot be extra flags", facts, hint) from error
    if not found:
        hint = f"Write {place.spelt('flags', '')} for none, or leave the word out."
        raise SpecError("'flags' is empty", {"spec": place.at("flags")}, hint)
    return tuple(dict.fromkeys(found))


def _threads(word: int | str, place: str) -> int | None:
    if word == "all":
        return None
    count = int(word) if str(word).isdecimal() else 0
    if not 0 < count <= 4096:
        raise SpecError(f"{word!r} is not a number of threads", {"spec": place, "allowed": '1 … 4096, or "all"'}, "")
    return count
