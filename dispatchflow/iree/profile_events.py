"""Parse the profile of a run, as `iree-profile export --format=ireeperf-jsonl` prints it.

All times are in ns on the host's monotonic clock. Ticks of the device's own clock are converted by linear interpolation
between the first and the last reading of both clocks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from dispatchflow.errors import ToolError

SCHEMA: Final = 15
"""The schema version of the exports that IREE 3.12 and 3.13 write. Other versions are refused."""

_NONE = 0xFFFFFFFF
_UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_EXECUTIONS = ("host_execution_event", "queue_device_event")


class Launch(msgspec.Struct, frozen=True, gc=False):
    """One execution of a dispatch."""

    submission: int
    command_buffer: int
    """The number by which the runtime identifies the command buffer that contains the dispatch.

    A buffer that is executed again keeps its number."""
    command: int | None
    """The dispatch's index in the command buffer.

    None on the device `local-sync`, which executes commands in order and reports no index."""
    export: str
    workgroups: tuple[int, int, int]
    start_ns: int
    end_ns: int
    workers_ns: int | None
    """The time of the dispatch's workgroups, summed over all workers; None on a device without workers."""

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns


class QueueOperation(msgspec.Struct, frozen=True, gc=False):
    """One operation that the host submitted to a queue."""

    kind: str
    """The runtime's name of the operation: `execute`, `alloca`, `dealloca`, `barrier`, `copy`, `fill`, …"""
    submission: int
    submitted_ns: int
    ready_ns: int
    """The time at which the operation's dependencies were fulfilled, as the submission's record says."""
    start_ns: int | None
    """The time at which the execution began; None if only the submission is recorded."""
    end_ns: int | None


class Profile(msgspec.Struct, frozen=True):
    """All events in the profile of one process."""

    launches: tuple[Launch, ...]
    """The executions of dispatches, sorted by submission, command buffer and command."""
    operations: tuple[QueueOperation, ...]
    """The operations of all queues, in the order of submissions."""
    dropped: int
    """The number of events that were lost because the runtime's ring buffer was full."""


class Repetition(msgspec.Struct, frozen=True):
    """One repetition of a profiled benchmark. In each repetition, a function is called several times."""

    calls: int
    total_ns: int
    """Wall time in ns of all calls of the repetition together."""


class _Benchmark(msgspec.Struct):
    name: str
    run_type: str = ""
    iterations: int = 0
    real_time: float = 0
    time_unit: str = "ns"


class _Benchmarks(msgspec.Struct):
    benchmarks: list[_Benchmark]


class _Record(msgspec.Struct, gc=False):
    """One line of an exported profile.

    The class has the fields of all kinds of records that this module reads. A line sets only the fields of its kind."""

    record_type: str
    schema_version: int = 0
    format: str = ""
    op: str = "dispatch"
    event_id: int = 0
    submission_id: int = 0
    command_buffer_id: int = 0
    command_index: int = _NONE
    executable_id: int = 0
    function_ordinal: int = _NONE
    name: str | None = None
    physical_device_ordinal: int = 0
    host_time_ns: int = 0
    ready_host_time_ns: int = 0
    host_time_begin_ns: int = 0
    host_time_end_ns: int = 0
    start_host_time_ns: int = 0
    end_host_time_ns: int = 0
    device_tick: int = 0
    start_tick: int = 0
    end_tick: int = 0
    valid: bool = True
    workgroup_count: tuple[int, int, int] = (0, 0, 0)
    tile_count: int = 0
    tile_duration_sum_ns: int = 0
    dropped_records: int = 0


_DECODER = msgspec.json.Decoder(_Record)


def parse(text: str | bytes) -> Profile:
    """Parse the lines that `iree-profile export` wrote.

    Raises:
        ToolError: the text is not such an export, its version is not `SCHEMA`, the profile has several devices, an
            event has no valid time, or a dispatch has no name.
    """
    try:
        records: list[_Record] = _DECODER.decode_lines(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ToolError("the profile cannot be read", {"found": repr(text[:80]), "because": error}) from error
    _refuse_other_schemas(records)
    devices = sorted({each.physical_device_ordinal for each in records if each.record_type == "device"})
    if len(devices) > 1:
        raise ToolError("the profile has several devices", {"devices": ", ".join(map(str, devices))})
    clock = _Clock(records)
    names = {
        (each.executable_id, each.function_ordinal): each.name
        for each in records
        if each.record_type == "executable_function" and each.name is not None
    }
    dispatches = [
        each
        for each in records
        if each.record_type == "dispatch_event"
        or (each.record_type == "host_execution_event" and each.op == "dispatch")
    ]
    dispatches.sort(key=_order)
    return Profile(
        tuple(_launch(each, names, clock) for each in dispatches),
        _operations(records, clock),
        sum(each.dropped_records for each in records),
    )


def repetitions(text: str) -> tuple[Repetition, ...]:
    """Parse the repetitions of one function's benchmark from Google Benchmark's JSON.

    Records of aggregates, such as a median, are ignored.

    Raises:
        ToolError: `text` has no repetition, or a repetition has no time.
    """
    try:
        # Not strict: Google Benchmark does not escape control characters in a function's name.
        records = msgspec.convert(json.loads(text, strict=False), _Benchmarks).benchmarks
        found = tuple(
            Repetition(each.iterations, round(each.real_time * _UNITS[each.time_unit] * each.iterations))
            for each in records
            if each.run_type == "iteration" and each.name.endswith("/real_time")
        )
    except (ValueError, KeyError, OverflowError, RecursionError) as error:
        raise ToolError(
            "the benchmark tool's output has no calls", {"found": text[:200], "because": repr(error)}
        ) from error
    if not found or any(each.calls <= 0 or each.total_ns <= 0 for each in found):
        raise ToolError("the benchmark tool reports no time", {"found": text[:200]})
    return found


def _refuse_other_schemas(records: list[_Record]) -> None:
    if not records or records[0].record_type != "schema" or records[0].format != "ireeperf-jsonl":
        raise ToolError("the profile does not begin with its schema", {"expected": "ireeperf-jsonl"})
    if (version := records[0].schema_version) != SCHEMA:
        raise ToolError(
            f"schema version {version} of the profile is not known",
            {"known": SCHEMA},
            "Use a toolchain of IREE 3.12 or 3.13.",
        )


def _order(record: _Record) -> tuple[int, int, int, int]:
    return record.submission_id, record.command_buffer_id, record.command_index, record.event_id


class _Clock:
    """Converts the times of events to ns on the host's clock."""

    def __init__(self, records: Iterable[_Record]) -> None:
        samples = sorted(
            (each.device_tick, (each.host_time_begin_ns + each.host_time_end_ns) // 2)
            for each in records
            if each.record_type == "clock_correlation"
        )
        self._ends = (samples[0], samples[-1]) if samples and samples[0][0] < samples[-1][0] else None

    def times(self, record: _Record) -> tuple[int, int]:
        if not record.valid:
            raise ToolError("an event of the profile has no time", {"event": record.event_id, "kind": record.op})
        if record.record_type == "host_execution_event":
            start, end = record.start_host_time_ns, record.end_host_time_ns
        else:
            start, end = self._host_ns(record.start_tick), self._host_ns(record.end_tick)
        if end < start:
            raise ToolError("an event of the profile ends before it begins", {"event": record.event_id})
        return start, end

    def _host_ns(self, tick: int) -> int:
        if self._ends is None:
            raise ToolError("the profile does not relate the device's clock to the host's")
        (first_tick, first_ns), (last_tick, last_ns) = self._ends
        return first_ns + (tick - first_tick) * (last_ns - first_ns) // (last_tick - first_tick)


def _launch(record: _Record, names: Mapping[tuple[int, int], str], clock: _Clock) -> Launch:
    name = names.get((record.executable_id, record.function_ordinal))
    if name is None:
        raise ToolError("a dispatch of the profile has no name", {"event": record.event_id})
    start, end = clock.times(record)
    return Launch(
        record.submission_id,
        record.command_buffer_id,
        None if record.command_index == _NONE else record.command_index,
        name,
        record.workgroup_count,
        start,
        end,
        record.tile_duration_sum_ns if record.tile_count else None,
    )


def _operations(records: Iterable[_Record], clock: _Clock) -> tuple[QueueOperation, ...]:
    submitted, executed = [], {}
    for each in records:
        if each.record_type == "queue_event":
            submitted.append(each)
        elif each.record_type in _EXECUTIONS and each.op != "dispatch":
            executed[each.submission_id, each.op] = clock.times(each)
    submitted.sort(key=lambda record: record.submission_id)
    return tuple(
        QueueOperation(
            each.op,
            each.submission_id,
            each.host_time_ns,
            each.ready_host_time_ns,
            *executed.get((each.submission_id, each.op), (None, None)),
        )
        for each in submitted
    )
