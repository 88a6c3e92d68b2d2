"""Check and parse the values of a sweep's keys, such as `dtype` and `target`.

A value that is not allowed raises a SpecError."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, TypeVar

from dispatchflow import errors
from dispatchflow.errors import SpecError, suggestion
from dispatchflow.iree import flags
from dispatchflow.iree.targets import HINTS, TARGETS, Target
from dispatchflow.iree.targets import named as named_target
from dispatchflow.mlir.types import Signature, signature
from dispatchflow.operations import OPTIONS, Operation, Option
from dispatchflow.planning import module_words
from dispatchflow.planning.axis import Axis, AxisError, axis
from dispatchflow.planning.location import Location
from dispatchflow.planning.reading import Read
from dispatchflow.planning.shapes import Shape, classes, classes_of
from dispatchflow.tools import limits
from dispatchflow.tunings import TUNINGS, Tuning, TuningFile
from dispatchflow.units import whole

AXES = ("dtype", "layout", *OPTIONS, "tuning", "target", "threads", "flags", "provider", "cache")
MODULE = ("file", "suite", "function", "inputs", "parameters", "expected", "reference", "rtol", "name")
"""Keys that are allowed only in a sweep of users' own MLIR or ONNX files."""

T = TypeVar("T")


def options(written: Any, option: Option, whose: str, place: str) -> tuple[str | int, ...]:
    """Return the values that a sweep gives to an operation's option.

    If `written` is None, the only value is the option's default. `whose` is the name of the option in error messages,
    such as `kind of pooling`."""
    if written is None:
        return (option.default,)
    found = []
    for item in listed(written):
        try:
            found.append(option.parse(item))
        except ValueError as error:
            names = [] if isinstance(option.values, range) else option.values
            facts = {"spec": place, "allowed": error}
            raise SpecError(f"{whose} cannot be {errors.written(item)}", facts, suggestion(str(item), names)) from error
    if not found:
        raise SpecError(f"{whose} is empty", {"spec": place}, "Name at least one, or leave the word out.")
    return tuple(dict.fromkeys(found))


def values(word: str, written: str) -> list[str]:
    """Split the text of a sweep's key into values.

    `word` is the name of the key, and `written` is its text. For example, the text `f16,f32` of the key `dtype` has the
    values `f16` and `f32`."""
    return _type_words(written) if word == "dtype" else listed(written)


def takes(operation: type[Operation], word: str, value: str) -> bool:
    """Return whether `operation` accepts `value` for the key `word`.

    `word` is `dtype`, `layout` or the name of an option."""
    if word == "dtype":
        return _signature(value, operation) is not None
    if word == "layout":
        return value in operation.layouts
    return word in operation.options and operation.options[word].takes(value)


def listed(value: Any) -> list[Any]:
    """Split a text, or each text of a list, at commas and spaces."""
    items = value if isinstance(value, list | tuple) else [value]
    split = (item.replace(",", " ").split() if isinstance(item, str) else [item] for item in items)
    return [word for words in split for word in words]


def has_gap(value: Any) -> bool:
    """Return whether a text has an empty item before, between or after commas: `default,,data_tiling`."""
    items = value if isinstance(value, list | tuple) else [value]
    return any(isinstance(item, str) and re.search(r"^\s*,|,\s*,|,\s*$", item) for item in items)


def chosen(
    words: Sequence[str], known: Mapping[str, T], what: str, place: str, also: Sequence[str] = ()
) -> tuple[T, ...]:
    """Return the values of `known` whose keys are in `words`, without duplicates.

    `what`, `place` and `also` are used only in error messages.

    Raises:
        SpecError: one of `words` is not a key of `known`.
    """
    for word in words:
        if word not in known:
            raise SpecError(
                f"unknown {what} '{word}'",
                {"spec": place, "known": ", ".join([*also, *known])},
                HINTS.get(word) or suggestion(word, [*also, *known]),
            )
    return tuple(dict.fromkeys(known[word] for word in words))


def targets(written: Any, place: str, also: Sequence[str] = ()) -> tuple[Target, ...]:
    words = listed(written)
    others = {word: target for word in words if (target := named_target(word))}
    return chosen(words, {**TARGETS, **others}, "target", place, also)


def named(written: Any, known: Sequence[str], what: str, place: str) -> tuple[str, ...]:
    return chosen(listed(written), {word: word for word in known}, what, place)


def dimension(written: object, dim: str, place: Location) -> Axis:
    try:
        return axis(written, place.size_forms(dim))
    except AxisError as error:
        raise SpecError("not a size", {"spec": place.at(dim), "found": error}, "") from error


def shape_of(size: int, operation: type[Operation], place: Location) -> str:
    return place.spelt("shape", "x".join([str(size)] * len(operation.dims)))


def shapes(words: Any, operation: type[Operation], place: Location) -> tuple[Shape, ...]:
    """Return the shapes that `words.shape` lists.

    Each item of the list is either a text of sizes, such as `64x80x96`, or the name of a class of shapes, such as
    `tiny`."""
    found: list[Shape] = []
    for word in listed(words.shape or []):
        sizes = word.split("x")
        if len(sizes) == len(operation.dims) and all(0 < (whole(s) or 0) < 2**31 for s in sizes):
            found.append(Shape(tuple(map(int, sizes))))
        else:
            found += _class(word, words, operation, place)
    return tuple(dict.fromkeys(found))


def _class(word: str, words: Any, operation: type[Operation], place: Location) -> tuple[Shape, ...]:
    known = classes_of(operation.name)
    if word not in known:
        problem = f"{operation.name} has no shapes '{word}'" if word in classes() else f"'{word}' is not a shape"
        facts = {"spec": place.at("shape"), "form": "x".join(operation.dims), "classes": ", ".join(known) or "none"}
        hint = suggestion(word, known) or f"Write {shape_of(64, operation, place)}."
        raise SpecError(problem, facts, hint)
    own = dict.fromkeys(option for shape in known[word] for option, _ in shape.options)
    if twice := [option for option in own if getattr(words, option) is not None]:
        facts = {"spec": place.at("shape"), "also given": ", ".join(twice)}
        raise SpecError(f"shape class '{word}' fixes {twice[0]}", facts, "Leave one of them out.")
    for shape in known[word]:
        if len(shape.sizes) != len(operation.dims):
            facts = {"shape": "x".join(map(str, shape.sizes)), "dims": "x".join(operation.dims)}
            problem = f"class '{word}' has a shape for {operation.name} with the wrong number of sizes"
            raise SpecError(problem, facts, "Fix the operation's list in dispatchflow/planning/shapes.toml.")
    return known[word]


def signatures(written: Any, operation: type[Operation], place: str) -> tuple[Signature, ...]:
    found = []
    for word in _type_words(written or next(iter(operation.signatures))):
        if (each := _signature(word, operation)) is None:
            spelt = [s.spelling for s in operation.signatures.values()]
            facts = {"spec": place, "known": ", ".join(operation.signatures), "spelt": ", ".join(spelt)}
            hint = suggestion(word, [*operation.signatures, *spelt])
            raise SpecError(f"{operation.name} has no element type '{word}'", facts, hint)
        found.append(each)
    return tuple(dict.fromkeys(found))


def _type_words(written: str | list[str]) -> list[str]:
    """Split a text into words at `,`, `;` and spaces, but not at the comma in `f16,f16->f32`."""
    words: list[str] = []
    for item in written if isinstance(written, list) else [written]:
        for word in re.split(r"[;\s]+", re.sub(r"\s*(,|->)\s*", r"\1", item.strip())):
            words += [word] if "->" in word else word.split(",")
    return words


def _signature(word: str, operation: type[Operation]) -> Signature | None:
    """Return the signature (element types) of `operation` that `word` names.

    Examples of words are `f16` and `f16,f16->f32`. Returns None if the operation has no such signature."""
    if word in operation.signatures:
        return operation.signatures[word]
    try:
        spelt = signature(word)
    except KeyError:
        return None
    return spelt if spelt in operation.signatures.values() else None


def tunings(written: Any, place: Location, read: Read) -> tuple[Tuning, ...]:
    found: list[Tuning] = []
    for item in written if isinstance(written, list) else [written]:
        if isinstance(item, str):
            for word in listed(item):
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


def _expanded(family: type[Tuning], parameters: dict[str, Any], place: Location, read: Read) -> tuple[Tuning, ...]:
    if family.file_parameter is not None:
        name = parameters.get(family.file_parameter)
        if not isinstance(name, str):
            form = f'{{family = "{family.family}", {family.file_parameter} = "my.mlir"}}'
            hint = f"Write {form}, or {family.family}:my.mlir."
            raise SpecError(f"{family.family} needs a file", {"spec": place.at("tuning")}, hint)
        file, content = module_words.file(name, "tuning", place, read)
        title = re.sub(r"[^\w-]", "-", PurePath(name).stem, flags=re.ASCII)
        try:
            given = TuningFile(file.path, title, content.decode())
        except UnicodeDecodeError as error:
            facts = {"spec": place.at("tuning"), "file": name, "found": error}
            raise SpecError("this file is not text", facts, "iree-opt prints bytecode as text.") from error
        parameters = {**parameters, family.file_parameter: given}
    try:
        return family.expand(parameters)
    except ValueError as error:
        raise SpecError(f"{family.family} cannot be this", {"spec": place.at("tuning"), "found": error}, "") from error


def _named_tuning(word: str, place: Location, read: Read) -> tuple[Tuning, ...]:
    name, _, path = word.partition(":")
    if name in TUNINGS and (not path or TUNINGS[name].file_parameter):
        return _expanded(TUNINGS[name], {TUNINGS[name].file_parameter or "": path} if path else {}, place, read)
    for family in TUNINGS.values():
        if (tuning := family.parse(word)) is not None:
            return (tuning,)
    names = [*TUNINGS, *(tuning.name for family in TUNINGS.values() for tuning in family.expand({}))]
    forms = [family.form for family in TUNINGS.values() if word.startswith(family.family) and family.form]
    facts = {"spec": place.at("tuning"), **({"form": forms[0]} if forms else {"known": ", ".join(TUNINGS)})}
    raise SpecError(f"unknown tuning '{word}'", facts, suggestion(word, names))


def extra_flags(written: str | list[str], place: Location) -> tuple[flags.Flags, ...]:
    """Parse the values of the key `flags`.

    Each value has all extra compiler flags of one compile, separated by spaces."""
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


def noisy(written: str | None, place: str) -> float | None:
    try:
        return None if written is None else limits.percent(written)
    except ValueError as error:
        raise SpecError(f"noisy cannot be {errors.written(written)}", {"spec": place, "allowed": error}, "") from error


def threads(word: int | str, place: str) -> int | None:
    if word == "all":
        return None
    count = whole(str(word)) or 0
    if not 0 < count <= 4096:
        raise SpecError(f"{word!r} is not a number of threads", {"spec": place, "allowed": '1 … 4096, or "all"'}, "")
    return count
