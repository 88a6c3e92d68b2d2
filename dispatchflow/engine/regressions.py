"""Find regressions. A regression is a stage that fails now, but has passed with another toolchain."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from dispatchflow.cases.known_failures import version_of
from dispatchflow.keys import key_of

if TYPE_CHECKING:
    from dispatchflow.cases.known_failures import KnownFailure
    from dispatchflow.engine.state import CaseState, StageState
    from dispatchflow.keys import Digest
    from dispatchflow.store.entries import Tables

_SAME = ("module", "flags", "requested")
"""Two compiles with different toolchains are compared if these ingredients of their keys are equal."""


class Regressions:
    """Searches the store's records for other toolchains with which a failed stage has passed.

    `toolchain` is the digest of the present toolchain."""

    def __init__(self, records: Tables, toolchain: Digest) -> None:
        self._records, self._toolchain = records, toolchain

    def judged(self, chain: CaseState, failed: StageState, entry: KnownFailure | None) -> CaseState:
        """Mark a failed case as a regression or a known failure, or as neither.

        `entry` is the known failure that fits the failure, or None."""
        passed = self._passed_with(chain, failed)
        # A known failure may have passed with releases outside the entry's bounds; that is no regression.
        version = next((v for v in passed if entry is None or entry.holds_for(version_of(v))), None)
        if version is None:
            return msgspec.structs.replace(chain, known=entry)
        why = f"regression: passed with {version}; {failed.why}"
        steps = {**chain.steps, failed.stage: msgspec.structs.replace(failed, why=why)}
        return msgspec.structs.replace(chain, steps=steps)

    def _passed_with(self, chain: CaseState, failed: StageState) -> Iterator[str]:
        """Yield the versions of the other toolchains with which the failed stage has passed."""
        compiled = chain["compile"].action
        if compiled is None or failed.action is None:
            return
        others = self._compiled.get(_shared(compiled.ingredients), [])
        if failed.stage == "compile":
            yield from (version for version, _ in others)
        if failed.stage == "verify":
            ingredients = {name: value for name, value in failed.action.ingredients.items() if name != "runtime"}
            codes = {code: version for version, code in others} | {str(chain["compile"].code): None}
            for code, version in codes.items():
                yield from self._verified(ingredients | {"code": code}, version)

    def _verified(self, ingredients: Mapping[str, Any], version: str | None) -> Iterator[str]:
        """Yield a version for each runtime with which the code in `ingredients` passed verification.

        Yields `version`, the version of the toolchain that compiled the code. If `version` is None, yields the version
        of the runtime."""
        for own in ({}, *({"runtime": runtime} for runtime in self._runtimes)):
            record = self._records.found(key_of("verify", {**ingredients, **own}))
            if record is not None and record.ok:
                yield version or str(record.facts.get("runtime", "another runtime"))

    @cached_property
    def _toolchains(self) -> list[Mapping[str, Any]]:
        return [json.loads(text) for text in self._records.remembered_of("toolchain")]

    @cached_property
    def _runtimes(self) -> list[str]:
        return list(dict.fromkeys(known["runtime_digest"] for known in self._toolchains))

    @cached_property
    def _compiled(self) -> dict[str, list[tuple[str, str]]]:
        """The successful compiles with other toolchains, grouped by module and options.

        Each pair has the toolchain's version and the digest of the compiled code."""
        versions = {known["digest"]: known["version"] for known in self._toolchains}
        found: dict[str, list[tuple[str, str]]] = {}
        for code, ingredients in self._records.passed_compiles(self._toolchain):
            made_by = ingredients["toolchain"]
            version = versions.get(made_by, f"toolchain {made_by[:8]}")
            found.setdefault(_shared(ingredients), []).append((version, code))
        return found


def _shared(ingredients: Mapping[str, Any]) -> str:
    # JSON, because an action has tuples where its record has lists.
    return json.dumps([ingredients.get(name) for name in _SAME])
