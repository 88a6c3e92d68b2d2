"""Case → actions and their keys. What enters each key, and why: docs/caching.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

import msgspec

from dispatchflow.dispatch import Case
from dispatchflow.keys import Digest, Form, Key, digest_of, key_of
from dispatchflow.operations import Operation
from dispatchflow.protocols import Protocol
from dispatchflow.syntax import Syntax

STAGES = ("emit", "compile", "verify", "profile")

CONFIGURATION_CHECK = 1
"""Version of `applied.parse` and `Tuning.ignored`. Raise it when what counts as applied changes."""

VERIFICATION = 1
"""Version of the verification ladder. Raise it when what counts as right changes."""


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


_EMIT = Form("emit", lambda module: {"module": module})


def emit(case: Case, syntax: Syntax) -> Action:
    """Named by the text that it makes: who printed it does not matter."""
    return _action(_EMIT, digest_of(case.dispatch.module(syntax).encode()))


def compilation(
    module: Digest,
    flags: Sequence[str],
    toolchain: Digest,
    environment: Mapping[str, str],
    requested: str | None = None,
) -> Action:
    """`requested`: the configuration that must be found applied; a compile that ignored it is a failure."""
    shared = (tuple(flags), toolchain, tuple(environment.items()), requested, CONFIGURATION_CHECK)
    return _action(_compilation(*shared), module)


@cache
def _compilation(flags: Any, toolchain: str, environment: Any, requested: str | None, check: int) -> Form:
    return Form(
        "compile",
        lambda module: {
            "module": module,
            "flags": flags,
            "toolchain": toolchain,
            "environment": dict(environment),
            "requested": requested,
            "check": check,
        },
    )


def inputs(operation: Operation) -> Action:
    """Operands of both recipes: outputs `exact_0`, `exact_1`, …, `random_0`, …"""
    return _data_action("inputs", operation)


def expectation(operation: Operation) -> Action:
    """What the inputs must give: outputs `exact`, and `reference` and `tolerance` or `random` for integers."""
    return _data_action("expected", operation)


def _data_action(kind: str, operation: Operation) -> Action:
    source = _data_sources(type(operation).__module__)
    return _action(_data(kind, source, tuple(_versions().items())), operation.shape_name)


@cache
def _data(kind: str, source: Digest, versions: Any) -> Form:
    return Form(kind, lambda operation: {"operation": operation, "source": source, **dict(versions)})


class Data(dict[str, tuple[Digest, ...]]):
    """The digests of the bytes of inputs and expected results, by name. Not how they were made. Not to be changed: it
    keeps the forms of the verifications that compare it."""

    def verification(self, device: Mapping[str, Any], threads: int) -> Form:
        place = (VERIFICATION, tuple(device.items()), threads)
        if (form := self._forms.get(place)) is None:
            ordered = dict(sorted(self.items()))
            counts = tuple(zip(ordered, map(len, ordered.values()), strict=True))
            form = self._forms[place] = _verification(counts, *place).ending(*chain.from_iterable(ordered.values()))
        return form

    @cached_property
    def _forms(self) -> dict[Any, Form]:
        return {}


def verification(code: Digest, data: Mapping[str, Sequence[Digest]], device: Mapping[str, Any], threads: int) -> Action:
    known = data if isinstance(data, Data) else Data({name: tuple(digests) for name, digests in data.items()})
    return _action(known.verification(device, threads), code)


@cache
def _verification(counts: tuple[tuple[str, int], ...], ladder: int, device: Any, threads: int) -> Form:
    def ingredients(code: str, *digests: str) -> dict[str, Any]:
        rest = iter(digests)
        return {
            "code": code,
            "data": {name: tuple(islice(rest, count)) for name, count in counts},
            "protocol": ladder,
            "device": dict(device),
            "threads": threads,
        }

    return Form("verify", ingredients)


def measurement(
    code: Digest, data: Sequence[Digest], protocol: Protocol, device: Mapping[str, Any], threads: int
) -> Action:
    return _action(_measurement(protocol.id, tuple(device.items()), threads), code, *data)


@cache
def _measurement(protocol: str, device: Any, threads: int) -> Form:
    return Form(
        "profile",
        lambda code, *data: {
            "code": code,
            "data": data,
            "protocol": protocol,
            "device": dict(device),
            "threads": threads,
        },
    )


@cache
def _data_sources(operation_module: str) -> Digest:
    """The digest of the modules that make inputs and expected results. Their text, not their behaviour: a comment
    makes them anew, and then the digests of the bytes say that nothing changed."""
    folder = Path(__file__).parent
    own = folder.joinpath(*operation_module.split(".")[1:]).with_suffix(".py")
    names = (own, folder / "operations/_base.py", folder / "inputs.py", folder / "reference.py", folder / "types.py")
    return Digest(key_of("source", {path.name: path.read_bytes() for path in names}))


@cache
def _versions() -> dict[str, str]:
    from importlib.metadata import version

    return {"numpy": version("numpy"), "ml_dtypes": version("ml_dtypes")}
