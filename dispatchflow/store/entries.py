"""Records and measurements as objects. Columns that planning does not need are read on first use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Protocol

import msgspec

from dispatchflow.keys import Digest, Key
from dispatchflow.store.facts import Facts
from dispatchflow.timing.statistics import NOISY, disturbed, noisy


class Source(Protocol):
    """The queries that the classes of this file use. `records.Records` implements this protocol."""

    def get(self, key: Key) -> Record | None: ...

    def value(self, text: str) -> Any: ...

    def observation(self, measurement: int) -> tuple[str | None, Mapping[str, Any], Mapping[str, Any], str, float]: ...

    def blocks(self, measurement: int) -> list[tuple[float, float | None, float]]: ...

    def everything(self) -> tuple[dict[Key, tuple[Any, ...]], dict[Key, tuple[Any, ...]]]: ...


def named_files(outputs: Mapping[str, Digest]) -> dict[str, Digest]:
    """Return the `outputs` that the compiler reads as files.

    Such an output is named `DIGEST.SUFFIX`. No other output has a dot in its name."""
    return {name: digest for name, digest in outputs.items() if "." in name}


class Record(msgspec.Struct, frozen=True):
    """The result of one executed action."""

    key: Key
    stage: str
    ok: bool
    reason: str | None = None
    outputs: Mapping[str, Digest] = {}
    """Name of an output → digest of its content."""
    facts: Facts = {}
    ingredients: Mapping[str, Any] = {}
    cost_s: float = 0.0
    run: str = ""
    at: float = 0.0


class RecordHead(msgspec.Struct, frozen=True, dict=True):
    """A record with only the columns that planning reads, because planning reads thousands of records.

    The remaining columns are read from the database on first use."""

    key: Key
    ok: bool
    code: Digest | None
    """The digest of a compile's code, or of the runtime that ran a verification. Otherwise None."""
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
        """The digest of the runtime that ran a verification. None for records of other stages."""
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
    """All timings of one case under one protocol.

    Each run of a benchmark process gives one timing, which is called a block. The fields are the columns that
    planning reads. The remaining columns are read from the database on first use."""

    id: int
    key: Key
    status: str
    """`measured`, `noisy` or `failed`."""
    median_ns: float | None
    """The median of the blocks. None if no block succeeded."""
    runtime: Digest | None
    """The digest of the runtime that ran the blocks."""
    machine: str | None
    """The `machine.identity()` of the machine that ran the blocks."""
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
        """Return whether the median's uncertainty exceeds `limit`, or too many blocks waited for a CPU.

        The uncertainty is half the width of the median's confidence interval, divided by the median."""
        if limit == NOISY or self.status == "failed":
            return self.status == "noisy"
        return self.disturbed or noisy(self.blocks_ns, limit)

    @property
    def disturbed(self) -> bool:
        """Whether too many blocks waited for a CPU. The median may then be wrong."""
        return disturbed(self.conditions.get("disturbed_blocks") or 0, len(self.blocks_ns))

    @property
    def dispatch_ns(self) -> tuple[float, ...]:
        return tuple(ns for _, ns, _ in self._blocks if ns is not None)

    @property
    def cost_s(self) -> float:
        return sum(cost for _, _, cost in self._blocks)


class Reader(Protocol):
    """The queries that planning uses."""

    def found(self, key: Key) -> RecordHead | None: ...

    def measurement(self, key: Key) -> Measurement | None: ...


class Tables(Reader, Protocol):
    """The queries that `engine.resolver` uses. `records.Records` implements this protocol."""

    def measurements(self, key: Key) -> Iterator[Measurement]: ...

    def reader(self, cases: int) -> Reader: ...

    def remembered(self, name: str) -> str | None: ...

    def remembered_of(self, kind: str) -> list[str]: ...

    def passed_compiles(self, toolchain: Digest) -> Iterator[tuple[Digest, Mapping[str, Any]]]: ...


class Snapshot:
    """A `Reader` that loads all records when it is constructed. It sees no later changes."""

    def __init__(self, records: Source) -> None:
        self._records = records
        self._rows, self._measured = records.everything()
        self._found: dict[Key, RecordHead] = {}
        """Each key has only one head, so that the head's other columns are read only once."""

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
