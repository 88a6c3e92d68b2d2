"""Parse specs, which are TOML files, into sweeps. Error messages name the file, the line and the key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import msgspec

from dispatchflow.cases import known_failures
from dispatchflow.cases.module import ONNXRUNTIME, Module
from dispatchflow.cases.rotating_inputs import CACHES, HOT
from dispatchflow.errors import SpecError, suggestion, written
from dispatchflow.iree import flags
from dispatchflow.iree.targets import Target
from dispatchflow.keys import Digest
from dispatchflow.libraries.providers import IREE, PROVIDERS
from dispatchflow.mlir.types import Signature
from dispatchflow.operations import DIMS, OPERATIONS, OPTIONS, Operation
from dispatchflow.planning import inference, module_words, suites, sweep_words
from dispatchflow.planning.axis import Axis
from dispatchflow.planning.location import Location
from dispatchflow.planning.reading import Read
from dispatchflow.planning.shapes import Shape
from dispatchflow.tunings import Tuning
from dispatchflow.workload import Workload

PROGRAMS: dict[str, type[Workload]] = {**OPERATIONS, Module.name: Module}

# The words (keys) of a sweep: name, type, default. Their values are checked in sweep_words.
_Words = str | list[str]
_OPERATION_FIELDS: list[tuple[str, Any, Any]] = [  # in addition to its dims
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
    ("noisy", str | None, None),
    ("tags", _Words, ()),
    ("include", _Words, ()),
    ("exclude", _Words, ()),
]


@dataclass(frozen=True, slots=True)
class Sweep:
    """A parsed sweep: it requests a case for each combination of its sizes, tunings, targets and so on."""

    operation: type[Workload]
    # At most one of `dims` and `shapes` has items.
    dims: tuple[Axis, ...]
    shapes: tuple[Shape, ...]
    signatures: tuple[Signature, ...]
    layouts: tuple[str, ...]
    options: dict[str, tuple[str | int, ...]]
    # A sweep of users' own files has these instead of sizes, `signatures`, `layouts` and `options`.
    modules: tuple[Module, ...]
    tunings: tuple[Tuning, ...]
    targets: tuple[Target, ...]
    threads: tuple[int | None, ...]
    flags: tuple[flags.Flags, ...]
    providers: tuple[str, ...]
    caches: tuple[str, ...]
    noisy: float | None
    """The uncertainty above which a measurement is marked as noisy; None stands for the default limit.

    The uncertainty is half the width of the median's confidence interval, divided by the median."""
    tags: tuple[str, ...]
    # `include` and `exclude` are patterns for the names of cases.
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    place: str
    """The place where the sweep is written, such as `specs/matmul.toml:3, sweep[0]`."""
    lacking: tuple[suites.Lacking, ...] = ()
    """The folders of a test suite from which no case can be made."""


class _NoFiles:
    def __call__(self, name: str) -> tuple[str, bytes]:
        raise OSError(f"no file can be named here: {name}")

    def digest(self, name: str) -> tuple[str, Digest]:
        raise OSError(f"no file can be named here: {name}")

    def entries(self, folder: str) -> list[tuple[str, bool]]:
        raise OSError(f"no folder can be named here: {folder}")


_NO_FILES = _NoFiles()


def parse(
    text: str,
    path: PurePath,
    overrides: Mapping[str, Any],
    read: Read = _NO_FILES,
    only: Collection[str] = (),
) -> list[Sweep]:
    """Parse the sweeps of one spec file.

    Args:
        text: the content of the file.
        path: the path of the file, for messages.
        overrides: values that replace those in the file, such as `{"target": "vmvx"}`.
        read: reads the files that a sweep names, such as MLIR files.
        only: the operations to which `overrides` applies; all operations if empty.

    Raises:
        SpecError: the spec or a value in `overrides` is wrong.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SpecError("this spec is not TOML", {"spec": path, "found": error}, "See https://toml.io.") from error
    except RecursionError:
        raise SpecError(
            "this spec is nested too deeply", {"spec": path}, "No word of a spec has lists in lists."
        ) from None
    unknown = sorted(set(document) - {"sweep", known_failures.WORD})
    if unknown or not isinstance(document.get("sweep", []), list):
        word = unknown[0] if unknown else "sweep"
        begins = re.compile(rf"\W*{re.escape(word)}\b")
        line = next((number for number, line in enumerate(text.splitlines(), 1) if begins.match(line)), 1)
        facts = {"spec": f"{path}:{line}", "allowed": f"[[sweep]] and [[{known_failures.WORD}]] tables"}
        if word == "sweep":
            raise SpecError("'sweep' is a list of tables", facts, "Write [[sweep]], in two brackets.")
        raise SpecError(f"unknown word '{word}'", facts, suggestion(word, ["sweep", known_failures.WORD]))
    lines = [number for number, line in enumerate(text.splitlines(), 1) if re.match(r"\s*\[\[\s*sweep\s*\]\]", line)]
    sweeps = []
    for index, table in enumerate(document.get("sweep", [])):
        where = f"{path}:{lines[index]}" if index < len(lines) else str(path)
        for name in _operations(table):
            one = {**table, **name}
            fitting = {word: value for word, value in overrides.items() if not _of_other_programs(word, one)}
            own = fitting if not only or one.get("operation") in only else {}
            sweeps.append(sweep({**one, **own}, f"{where}, sweep[{index}]", read, own))
    return sweeps


def _operations(table: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return a dict for each operation that the sweep `table` names.

    `{"operation": "matmul softmax"}` becomes `[{"operation": "matmul"}, {"operation": "softmax"}]`."""
    # A sweep of users' own files need not name the operation `module`.
    written = table.get("operation", Module.name if {"file", "suite"} & set(table) else None)
    words = sweep_words.listed(written) if isinstance(written, str | list) else []
    # An empty dict stands for a missing operation, which `sweep` reports unless an override names one.
    return [{"operation": word} for word in dict.fromkeys(map(str, words))] or [{}]


def _of_other_programs(word: str, table: Mapping[str, Any]) -> bool:
    """Return whether the sweep in `table` ignores the command line's value of the key `word`.

    A sweep ignores options that its operation does not have. A sweep of users' own files ignores all options, and the
    keys `dtype`, `layout` and `shape`.
    """
    if table.get("operation") == Module.name:
        return word in (name for name, *_ in _OPERATION_FIELDS) or word in OPTIONS
    operation = OPERATIONS.get(str(table.get("operation")))
    return operation is not None and word in OPTIONS and word not in operation.options


def sweep(table: Mapping[str, Any], where: str, read: Read = _NO_FILES, replaced: Collection[str] = ()) -> Sweep:
    """Make a `Sweep` from the keys and values in `table`.

    `where` is the place of the sweep, such as `specs/matmul.toml:3, sweep[0]`. `replaced` has the keys whose values
    come from the command line.

    Raises:
        SpecError: a key is unknown, or its value has the wrong type or is out of range.
    """
    program, place = _program(table.get("operation"), where), Location(where, replaced)
    words, at = _typed(table, program, where, replaced), place.at
    for word, *_ in (*_OPERATION_FIELDS, *_FIELDS):
        # For `flags` an empty string is a value.
        if word in table and word != "flags" and not sweep_words.listed(getattr(words, word)):
            raise SpecError(f"'{word}' is empty", {"spec": at(word)}, "Name at least one, or leave the word out.")
        if word in table and word != "flags" and sweep_words.has_gap(getattr(words, word)):
            facts = {"spec": at(word), "found": written(getattr(words, word))}
            raise SpecError(f"'{word}' has an empty value", facts, "Remove the comma, or write a word there.")
    axes: dict[str, Any] = dict.fromkeys(("dims", "shapes", "signatures", "layouts", "modules", "lacking"), ()) | {
        "options": {}
    }
    if issubclass(program, Operation):
        axes |= _operation_axes(words, program, place)
    else:
        of_library = words.reference in (None, ONNXRUNTIME)
        reference = [] if of_library else sweep_words.targets(words.reference, at("reference"), [ONNXRUNTIME])
        if len(reference) > 1:
            facts = {"spec": at("reference"), "found": words.reference}
            raise SpecError("there are several references", facts, "A module is compared with one target.")
        against = next(iter(reference), None)
        if words.suite is None:
            axes["modules"] = module_words.modules(words, against, place, read)
        else:
            axes["modules"], axes["lacking"] = suites.modules(words, against, place, read)
    return Sweep(
        operation=program,
        **axes,
        tunings=sweep_words.tunings(words.tuning, place, read),
        targets=sweep_words.targets(words.target, at("target")),
        threads=tuple(
            dict.fromkeys(sweep_words.threads(word, at("threads")) for word in sweep_words.listed(words.threads))
        ),
        flags=sweep_words.extra_flags(words.flags, place),
        providers=sweep_words.named(words.provider, PROVIDERS, "provider", at("provider")),
        caches=sweep_words.named(words.cache, CACHES, "cache", at("cache")),
        noisy=sweep_words.noisy(words.noisy, at("noisy")),
        tags=tuple(sweep_words.listed(words.tags)),
        include=tuple(sweep_words.listed(words.include)),
        exclude=tuple(sweep_words.listed(words.exclude)),
        place=where,
    )


def _operation_axes(words: Any, operation: type[Operation], place: Location) -> dict[str, Any]:
    shape, at = words.shape, place.at
    given = [dim for dim in operation.dims if getattr(words, dim) is not None]
    if shape is not None and given:
        raise SpecError(
            "both 'shape' and dims are given", {"spec": at("shape"), "dims": ", ".join(given)}, "Give one of them."
        )
    dims = tuple(sweep_words.dimension(getattr(words, dim), dim, place) for dim in given)
    missing = [dim for dim in operation.dims if shape is None and dim not in given]
    if missing:
        first, *others = missing
        one, several = place.spelt(first, 512), place.sizes(first, (512, 1024))
        same = f" and {', '.join(others)} in the same way" if others else ""
        raise SpecError(
            f"{operation.name} needs a size for {', '.join(missing)}",
            {"spec": place.sweep, "dims": ", ".join(operation.dims)},
            f"Add {one} (or several sizes: {several}){same}"
            + ("." if given else f", or {sweep_words.shape_of(512, operation, place)}."),
        )
    return {
        "dims": dims,
        "shapes": sweep_words.shapes(words, operation, place),
        "signatures": sweep_words.signatures(words.dtype, operation, at("dtype")),
        "layouts": sweep_words.named(
            words.layout or operation.layouts[0], operation.layouts, f"layout of {operation.name}", at("layout")
        ),
        "options": {
            word: sweep_words.options(getattr(words, word), option, f"{word} of {operation.name}", at(word))
            for word, option in operation.options.items()
        },
    }


def _program(name: object, place: str) -> type[Workload]:
    if isinstance(name, str) and name in PROGRAMS:
        return PROGRAMS[name]
    problem = "a sweep names no operation" if name in (None, "", []) else f"unknown operation {name!r}"
    facts = {"spec": f"{place}.operation", "known": ", ".join(PROGRAMS)}
    hint = inference.by_field(str(name), Location(place)) or suggestion(str(name), PROGRAMS)
    raise SpecError(problem, facts, hint or f'Write operation = "{next(iter(OPERATIONS))}".')


def _typed(table: Mapping[str, Any], program: type[Workload], place: str, replaced: Collection[str]) -> Any:
    own = [(dim, Any, None) for dim in program.dims]  # `axis` checks sizes, with better messages
    if issubclass(program, Operation):
        own += [*_OPERATION_FIELDS, *[(word, Any, None) for word in program.options]]
    else:
        own += module_words.FIELDS
    struct = msgspec.defstruct("Sweep", [("operation", str), *own, *_FIELDS], forbid_unknown_fields=True)
    try:
        return msgspec.convert(dict(table), struct)
    except msgspec.ValidationError as error:
        allowed = [field for field in struct.__struct_fields__]
        if unknown := sorted(set(table) - set(allowed)):
            facts = {"spec": Location(place, replaced).at(unknown[0]), "allowed": ", ".join(allowed)}
            problem, hint = f"unknown word '{unknown[0]}'", suggestion(unknown[0], allowed)
            if unknown[0] in DIMS and program.dims:
                problem, hint = f"{program.name} has no dim '{unknown[0]}'", f"It has {', '.join(program.dims)}."
            raise SpecError(problem, facts, hint) from error
        what, _, where = str(error).partition(" - at `$")
        allowed_type, _, found = what.removeprefix("Expected ").partition(", got ")
        names = (
            allowed_type.replace(" | null", "").replace("array", "list").replace("object", "table").replace("|", "or")
        )
        raise SpecError(
            "wrong type", {"spec": place + where.rstrip("`"), "found": found.strip("`"), "allowed": names}
        ) from error
