"""Case → actions and their keys. What enters each key, and why: docs/caching.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

import msgspec

from dispatchflow.cases import rotating_inputs
from dispatchflow.cases.case import Case
from dispatchflow.cases.module import Module
from dispatchflow.engine import source_files
from dispatchflow.iree.release import Release
from dispatchflow.iree.targets import Device
from dispatchflow.keys import Digest, Form, Key, digest_of, key_of
from dispatchflow.operations import Operation
from dispatchflow.timing.protocols import Protocol

CONFIGURATION_CHECK = 5
"""Version of `configurations.parse` and `Dispatch.missed`. Raise it when what counts as applied changes."""

PRINTING = 4
"""Version of what is read from a user's module when it is printed."""

VERIFICATION = 6
"""Version of the verification ladder. Raise it when what counts as right changes."""


@dataclass(frozen=True)
class Data:
    """What code is run on, and compared with: bytes, not how they were made.

    digests: set (`exact`, `random`, `given`, `expected_…`) → its objects.
    arguments: of each operand the type that the tools are told, `4x8xf32`; `=` and the number for a bare number.
    """

    digests: Mapping[str, tuple[Digest, ...]]
    arguments: tuple[str, ...]

    @cached_property
    def measured(self) -> Data:
        """The last set of operands alone: the one that is measured."""
        recipe, digests = list(self.digests.items())[-1]
        return Data({recipe: digests}, self.arguments)

    @cached_property
    def forms(self) -> dict[Any, Form]:
        """Of the actions on it: many cases share it, and each brings its code only."""
        return {}

    def files(self, recipe: str) -> dict[str, Digest]:
        """Names in the directory where a tool runs → objects."""
        return {f"{recipe}_{i}.bin": digest for i, digest in enumerate(self.digests[recipe])}

    def inputs(self, recipe: str) -> tuple[str, ...]:
        """What `--input=` is given, one an operand."""
        return tuple(
            argument[1:] if argument.startswith("=") else f"{argument}=@{recipe}_{i}.bin"
            for i, argument in enumerate(self.arguments)
        )


class Call(msgspec.Struct, frozen=True):
    """Which code is called where."""

    code: Digest
    function: str
    device: Device


class Action(msgspec.Struct, frozen=True):
    """One step, fully described: equal ingredients, equal key, and then equal outputs."""

    stage: str
    key: Key
    form: Form
    strings: tuple[str, ...]

    @property
    def ingredients(self) -> Mapping[str, Any]:
        return self.form.ingredients(*self.strings)


def _action(form: Form, *strings: str) -> Action:
    return Action(form.kind, form.key(*strings), form, strings)


def _single(kind: str, **ingredients: Any) -> Action:
    """Of which a plan has few: what they share is not worth spelling once."""
    return _action(Form(kind, lambda: ingredients))


_EMIT = Form("emit", lambda module: {"module": module})


def emit(case: Case, syntax: Release) -> Action:
    """Named by the text that it makes: who printed it does not matter."""
    return _action(_EMIT, digest_of(case.dispatch.module(syntax).encode()))


def emit_call(text: str) -> Action:
    """A library's call: named by its text too."""
    return _action(_EMIT, digest_of(text.encode()))


def reprint(module: Module, toolchain: Digest) -> Action:
    """`emit` of a user's module: printed by the compiler, without comments, names and places of the file."""
    objects = tuple((path, file.digest) for path, file in module.objects)
    return _single("emit", source=module.source.digest, objects=objects, toolchain=toolchain, protocol=PRINTING)


def compilations(
    flags: Sequence[str], toolchain: Digest, environment: Mapping[str, str], requested: str | None = None
) -> Form:
    """What the compiles of many modules share. `requested`: what the dump must show, as
    `Dispatch.demanded` says it; a compile that ignored it is a failure."""
    return Form(
        "compile",
        lambda module: {
            "module": module,
            "flags": tuple(flags),
            "toolchain": toolchain,
            "environment": dict(environment),
            "requested": requested,
            "check": CONFIGURATION_CHECK,
        },
    )


def compilation(module: Digest, form: Form) -> Action:
    return _action(form, module)


def inputs(operation: Operation) -> Action:
    """Operands of all recipes: outputs `exact_0`, `exact_1`, …, `random_0`, …"""
    return _data_action("inputs", operation)


def expectation(operation: Operation) -> Action:
    """What the inputs must give: of each recipe an output of its name, or `random_reference` and `random_tolerance`
    where elements have a bound; `unseen`, the errors that none of them would see, a line each."""
    return _data_action("expected", operation)


def _data_action(kind: str, operation: Operation) -> Action:
    module = type(operation).__module__
    source = _sources(*source_files.of_operation(module))
    return _action(_data(kind, source, tuple(source_files.versions_of(module).items())), operation.shape_name)


@cache
def _data(kind: str, source: Digest, versions: Any) -> Form:
    return Form(kind, lambda operation: {"operation": operation, "source": source, **dict(versions)})


def arguments(module: Module, types: Sequence[str]) -> Action:
    """A module's operands: outputs `given_0`, `given_1`, …"""
    given = [(i.type, i.value, i.file.digest if i.file else None) for i in module.inputs or ()]
    return _single(
        "inputs",
        types=tuple(types),
        given=None if module.inputs is None else tuple(given),
        source=_sources(
            "verification/module_data.py", "operations/_random.py", "verification/inputs.py", "mlir/types.py"
        ),
        **source_files.versions(),
    )


def expected_files(module: Module, results: Sequence[str]) -> Action:
    """What the user says that a module gives: outputs `0`, `1`, …, `types`."""
    files = tuple(item if isinstance(item, str) else item.digest for item in module.expected)
    return _single(
        "expected", files=files, results=tuple(results), source=_sources("verification/module_data.py", "mlir/types.py")
    )


def expected_from(call: Call, operands: Data, results: Sequence[str]) -> Action:
    """What another target makes of the module: outputs `0`, `1`, …, `types`."""
    return _called("expected", call, operands, results=tuple(results), types=True, protocol=VERIFICATION)


def verification(
    call: Call, data: Data, tolerance: str | None, is_reference: bool = False, runtime: Digest | None = None
) -> Action:
    """`tolerance`: of a user's module; an operation has its own bound, among the data. `is_reference`: the code made
    what is expected, which another code may have made as well. `runtime`: that verifies what another one verified
    before it; None where it is the first."""
    more: dict[str, Any] = {"is_reference": True} if is_reference else {}
    more |= {"runtime": runtime} if runtime is not None else {}
    return _called("verify", call, data, tolerance=tolerance, protocol=VERIFICATION, **more)


def measurement(call: Call, operands: Data, protocol: Protocol, sets: int | None = None) -> Action:
    """`sets`: so many copies of the operands are taken in turn; None for one, which stays in the caches."""
    cold = {} if sets is None else {"rotation": (rotating_inputs.VERSION, sets)}
    return _called("profile", call, operands, protocol=protocol.id, **cold)


def _called(kind: str, call: Call, data: Data, **rest: Any) -> Action:
    place = (kind, call.function, call.device.digest, *rest.values())
    if (form := data.forms.get(place)) is None:
        shared = (call.function, tuple(call.device.identity.items()), call.device.threads, tuple(rest.items()))
        ordered = dict(sorted(data.digests.items()))
        counts = tuple(zip(ordered, map(len, ordered.values()), strict=True))
        digests = list(chain.from_iterable(ordered.values()))
        form = data.forms[place] = _call(kind, len(data.arguments), counts, *shared).around(data.arguments, digests)
    return _action(form, call.code)


@cache
def _call(
    kind: str, operands: int, counts: tuple[tuple[str, int], ...], function: str, device: Any, threads: int, rest: Any
) -> Form:
    def ingredients(*strings: str) -> dict[str, Any]:
        left = iter(strings)
        return {
            "arguments": tuple(islice(left, operands)),
            "code": next(left),
            "data": {name: tuple(islice(left, count)) for name, count in counts},
            "function": function,
            "device": dict(device),
            "threads": threads,
            **dict(rest),
        }

    return Form(kind, ingredients)


@cache
def _sources(*names: str) -> Digest:
    """The digest of the modules that make inputs and expected results. Their text, not their behaviour: a comment
    makes them anew, and then the digests of the bytes say that nothing changed."""
    folder = Path(__file__).parent.parent
    return Digest(key_of("source", {name: (folder / name).read_bytes() for name in names}))
