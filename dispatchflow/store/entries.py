"""Represent the store's records and measurements as objects.

Planning (deciding what must run) needs only a few columns. The other columns are read when they are first used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Protocol

import msgspec

from dispatchflow.keys import Digest, Key
from dispatchflow.store.facts import Facts
from dispatchflow.timing.statistics import NOISY, disturbed, noisy


class Source(Protocol):
    """The database queries that the classes of this file use. `records.Records` implements this protocol."""

    def get(self, key: Key) -> Record | None: ...

    def value(self, text: str) -> Any: ...

    def observation(self, measurement: int) -> tuple[str | None, Mapping[str, Any], Mapping[str, Any], str, float]: ...

    def blocks(self, measurement: int) -> list[tuple[float, float | None, float]]: ...

    def everything(self) -> tuple[dict[Key, tuple[Any, ...]], dict[Key, tuple[Any, ...]]]: ...


def named_files(outputs: Mapping[str, Digest]) -> dict[str, Digest]:
    """Select the compiler's inputs other than the module from the outputs of `emit` or `compile`.

    These inputs are object files (machine code) and files of a tuning. Their names have the form `DIGEST.SUFFIX`."""
    # No other name has a dot, unless a library computes the case.
    return {name: digest for name, digest in outputs.items() if "." in name}


class Record(msgspec.Struct, frozen=True):
    """The outcome of one executed action (a step such as a compile): its outputs, or why it failed."""

    key: Key
    stage: str
    ok: bool
    reason: str | None = None
    outputs: Mapping[str, Digest] = {}
    """A mapping from the name of an output to the digest of its content."""
    facts: Facts = {}
    ingredients: Mapping[str, Any] = {}
    cost_s: float = 0.0
    run: str = ""
    at: float = 0.0


class RecordHead(msgspec.Struct, frozen=True, dict=True):
    """A record with only the columns that planning needs, because planning reads thousands of records."""

    key: Key
    ok: bool
    code: Digest | None
    """The digest of what a stage produced or ran: of a compile's code, or of a verification's runtime.

    The value is None for other stages."""
    outputs_json: str
    records: Source

    @cached_property
    def outputs(self) -> Mapping[str, Digest]:
        found: dict[str, Digest] = self.records.value(self.outputs_json)
        return found

    @cached_property
    def whole(self) -> Record:
        # Another invocation may have dropped the record in the meantime, because its objects are damaged.
        return self.records.get(self.key) or Record(self.key, "", self.ok, outputs=self.outputs)

    @property
    def runtime(self) -> Digest | None:
        """The digest of the runtime that ran a verification.

        Use this property only for records of the stage `verify`."""
        # Older versions of dispatchflow recorded this digest only as a fact.
        known: Digest | None = self.code or self.facts.get("runtime_digest")
        return known

    @property
    def reason(self) -> str | None:
        return self.whole.reason

    @property
    def facts(self) -> Facts:
        return self.whole.facts

    @property
    def run(self) -> str:
        return self.whole.run


class Measurement(msgspec.Struct, frozen=True, dict=True):
    """All timings of one case under one measurement protocol.

    Each benchmark process gives one timing, which is called a block. The fields are the columns that planning needs.
    """

    id: int
    key: Key
    status: str
    """`measured`, `noisy` or `failed`."""
    median_ns: float | None
    """The median of the timings of all benchmark processes. None if no process succeeded."""
    runtime: Digest | None
    """The digest of the runtime with which the case was measured. None if it is unknown."""
    machine: str | None
    """The identity of the machine on which the case was measured. None if it is unknown.

    The identity is computed by `machine.identity()`."""
    records: Source

    @cached_property
    def _rest(self) -> tuple[str | None, Mapping[str, Any], Mapping[str, Any], str, float]:
        return self.records.observation(self.id)

    @property
    def reason(self) -> str | None:
        return self._rest[0]

    @property
    def conditions(self) -> Mapping[str, Any]:
        return self._rest[1]

    @property
    def ingredients(self) -> Mapping[str, Any]:
        return self._rest[2]

    @property
    def run(self) -> str:
        return self._rest[3]

    @property
    def at(self) -> float:
        return self._rest[4]

    @cached_property
    def _blocks(self) -> list[tuple[float, float | None, float]]:
        return self.records.blocks(self.id)

    @property
    def blocks_ns(self) -> tuple[float, ...]:
        return tuple(ns for ns, _, _ in self._blocks)

    def noisy_above(self, limit: float) -> bool:
        """Return whether the median is too uncertain, or too many benchmark processes waited for a CPU.

        The median is too uncertain if half of the width of its confidence interval, divided by the median, exceeds
        `limit`."""
        if limit == NOISY or self.status == "failed":
            return self.status == "noisy"
        return self.disturbed or noisy(self.blocks_ns, limit)

    @property
    def disturbed(self) -> bool:
        """True if too many benchmark processes waited for a CPU. The median may then be wrong."""
        return disturbed(self.conditions.get("disturbed_blocks") or 0, len(self.blocks_ns))

    @property
    def dispatch_ns(self) -> tuple[float, ...]:
        return tuple(ns for _, ns, _ in self._blocks if ns is not None)

    @property
    def cost_s(self) -> float:
        return sum(cost for _, _, cost in self._blocks)


class Reader(Protocol):
    """The database queries that planning uses."""

    def found(self, key: Key) -> RecordHead | None: ...

    def measurement(self, key: Key) -> Measurement | None: ...


class Tables(Reader, Protocol):
    """The database queries that `engine.resolver` uses. `records.Records` implements this protocol."""

    def measurements(self, key: Key) -> Iterator[Measurement]: ...

    def reader(self, cases: int) -> Reader: ...

    def remembered(self, name: str) -> str | None: ...

    def remembered_of(self, kind: str) -> list[str]: ...

    def passed_compiles(self, toolchain: Digest) -> Iterator[tuple[Digest, Mapping[str, Any]]]: ...


class Snapshot:
    """A `Reader` that loads all records and measurements when it is constructed. It sees no later changes."""

    def __init__(self, records: Source) -> None:
        self._records = records
        self._rows, self._measured = records.everything()
        self._found: dict[Key, RecordHead] = {}
        """The `RecordHead` of each key that was looked up.

        It is kept so that the record's other columns are read only once."""

    def found(self, key: Key) -> RecordHead | None:
        if (found := self._found.get(key)) is None and (row := self._rows.get(key)) is not None:
            _, ok, code, outputs = row
            self._found[key] = found = RecordHead(key, bool(ok), code, outputs, self._records)
        return found

    def measurement(self, key: Key) -> Measurement | None:
        if (row := self._measured.get(key)) is None:
            return None
        _, id_, status, median_ns, runtime, machine = row
        return Measurement(id_, key, status, median_ns, runtime, machine, self._records)
