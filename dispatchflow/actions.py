"""Case → actions and their keys. What enters each key, and why: docs/caching.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from dispatchflow.dispatch import Case
from dispatchflow.keys import Digest, Key, digest_of, key_of
from dispatchflow.operations import Operation
from dispatchflow.protocols import Protocol
from dispatchflow.syntax import Syntax

STAGES = ("emit", "compile", "verify", "profile")

CONFIGURATION_CHECK = 1
"""Version of `applied.parse` and `Tuning.ignored`. Raise it when what counts as applied changes."""

VERIFICATION = 1
"""Version of the verification ladder. Raise it when what counts as right changes."""


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


def verification(code: Digest, data: Mapping[str, Sequence[Digest]], device: Mapping[str, Any], threads: int) -> Action:
    """`data`: the digests of the bytes of inputs and expected results, by name. Not how they were made."""
    return _action(
        "verify",
        code=code,
        data={name: tuple(digests) for name, digests in data.items()},
        protocol=VERIFICATION,
        device=dict(device),
        threads=threads,
    )


def measurement(
    code: Digest, data: Sequence[Digest], protocol: Protocol, device: Mapping[str, Any], threads: int
) -> Action:
    return _action("profile", code=code, data=tuple(data), protocol=protocol.id, device=dict(device), threads=threads)


def _data_ingredients(operation: Operation) -> dict[str, Any]:
    return {
        "operation": f"{operation.name}_{operation.label}",
        "source": _data_sources(type(operation).__module__),
        **_versions(),
    }


@lru_cache
def _data_sources(operation_module: str) -> Digest:
    """The digest of the modules that make inputs and expected results. Their text, not their behaviour: a comment
    makes them anew, and then the digests of the bytes say that nothing changed."""
    folder = Path(__file__).parent
    own = folder.joinpath(*operation_module.split(".")[1:]).with_suffix(".py")
    names = (own, folder / "operations/_base.py", folder / "inputs.py", folder / "reference.py", folder / "types.py")
    return Digest(key_of("source", {path.name: path.read_bytes() for path in names}))


@lru_cache
def _versions() -> dict[str, str]:
    from importlib.metadata import version

    return {"numpy": version("numpy"), "ml_dtypes": version("ml_dtypes")}
