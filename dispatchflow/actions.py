"""Case → actions and their keys. What enters each key, and why: docs/caching.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from dispatchflow.dispatch import Case
from dispatchflow.keys import Digest, Key, digest_of, key_of
from dispatchflow.module import Module
from dispatchflow.operations import Operation
from dispatchflow.protocols import Protocol
from dispatchflow.syntax import Syntax
from dispatchflow.targets import Device

STAGES = ("emit", "compile", "verify", "profile")

CONFIGURATION_CHECK = 1
"""Version of `applied.parse` and `Tuning.ignored`. Raise it when what counts as applied changes."""

VERIFICATION = 1
"""Version of the verification ladder. Raise it when what counts as right changes."""


@dataclass(frozen=True, slots=True)
class Data:
    """What code is run on, and compared with: bytes, not how they were made.

    digests: set (`exact`, `random`, `given`, `expected_…`) → its objects.
    arguments: of each operand the type that the tools are told, `4x8xf32`; `=` and the number for a bare number.
    """

    digests: Mapping[str, tuple[Digest, ...]]
    arguments: tuple[str, ...]

    def only(self, recipe: str) -> Data:
        return Data({recipe: self.digests[recipe]}, self.arguments)

    def files(self, recipe: str) -> dict[str, Digest]:
        """Names in the directory where a tool runs → objects."""
        return {f"{recipe}_{i}.bin": digest for i, digest in enumerate(self.digests[recipe])}

    def inputs(self, recipe: str) -> tuple[str, ...]:
        """What `--input=` is given, one an operand."""
        return tuple(
            argument[1:] if argument.startswith("=") else f"{argument}=@{recipe}_{i}.bin"
            for i, argument in enumerate(self.arguments)
        )


@dataclass(frozen=True, slots=True)
class Call:
    """Which code is called where."""

    code: Digest
    function: str
    device: Device


@dataclass(frozen=True, slots=True)
class Action:
    """One step, fully described: equal ingredients, equal key, and then equal outputs."""

    stage: str
    key: Key
    ingredients: Mapping[str, Any]


def _action(stage: str, **ingredients: Any) -> Action:
    return Action(stage, key_of(stage, ingredients), ingredients)


def emit(case: Case, syntax: Syntax) -> Action:
    """Named by the text that it makes: who printed it does not matter."""
    return _action("emit", module=digest_of(case.dispatch.module(syntax).encode()))


def reprint(source: Digest, toolchain: Digest) -> Action:
    """`emit` of a user's module: printed by the compiler, without comments, names and places of the file."""
    return _action("emit", source=source, toolchain=toolchain)


def compilation(
    module: Digest,
    flags: Sequence[str],
    toolchain: Digest,
    environment: Mapping[str, str],
    requested: str | None = None,
) -> Action:
    """`requested`: the configuration that must be found applied; a compile that ignored it is a failure."""
    return _action(
        "compile",
        module=module,
        flags=tuple(flags),
        toolchain=toolchain,
        environment=dict(environment),
        requested=requested,
        check=CONFIGURATION_CHECK,
    )


def inputs(operation: Operation) -> Action:
    """Operands of both recipes: outputs `exact_0`, `exact_1`, …, `random_0`, …"""
    return _action("inputs", **_data_ingredients(operation))


def expectation(operation: Operation) -> Action:
    """What the inputs must give: outputs `exact`, and `reference` and `tolerance` or `random` for integers."""
    return _action("expected", **_data_ingredients(operation))


def arguments(module: Module, types: Sequence[str]) -> Action:
    """A module's operands: outputs `given_0`, `given_1`, …"""
    given = [(i.type, i.value, i.file.digest if i.file else None) for i in module.inputs or ()]
    return _action(
        "inputs",
        types=tuple(types),
        given=None if module.inputs is None else tuple(given),
        source=_sources("given.py", "inputs.py", "types.py"),
        **_versions(),
    )


def expected_files(module: Module, results: Sequence[str]) -> Action:
    """What the user says that a module gives: outputs `0`, `1`, …"""
    files = tuple(file.digest for file in module.expected)
    return _action("expected", files=files, results=tuple(results), source=_sources("given.py", "types.py"))


def expected_from(call: Call, operands: Data, results: Sequence[str]) -> Action:
    """What another target makes of the module: outputs `0`, `1`, …"""
    return _action("expected", **_call(call, operands), results=tuple(results), protocol=VERIFICATION)


def verification(call: Call, data: Data, tolerance: str | None) -> Action:
    """`tolerance`: of a user's module; an operation has its own bound, among the data."""
    return _action("verify", **_call(call, data), tolerance=tolerance, protocol=VERIFICATION)


def measurement(call: Call, operands: Data, protocol: Protocol) -> Action:
    return _action("profile", **_call(call, operands), protocol=protocol.id)


def _call(call: Call, data: Data) -> dict[str, Any]:
    return {
        "code": call.code,
        "function": call.function,
        "arguments": data.arguments,
        "data": dict(data.digests),
        "device": dict(call.device.identity),
        "threads": call.device.threads,
    }


def _data_ingredients(operation: Operation) -> dict[str, Any]:
    return {
        "operation": f"{operation.name}_{operation.label}",
        "source": _sources(*_modules_of(operation)),
        **_versions(),
    }


def _modules_of(operation: Operation) -> tuple[str, ...]:
    own = "/".join(type(operation).__module__.split(".")[1:]) + ".py"
    return (own, "operations/_base.py", "inputs.py", "reference.py", "types.py")


@lru_cache
def _sources(*names: str) -> Digest:
    """The digest of the modules that make inputs and expected results. Their text, not their behaviour: a comment
    makes them anew, and then the digests of the bytes say that nothing changed."""
    folder = Path(__file__).parent
    return Digest(key_of("source", {name: (folder / name).read_bytes() for name in names}))


@lru_cache
def _versions() -> dict[str, str]:
    from importlib.metadata import version

    return {"numpy": version("numpy"), "ml_dtypes": version("ml_dtypes")}
