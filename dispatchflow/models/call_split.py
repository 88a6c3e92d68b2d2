"""Split the time of calls into parts that do not overlap and leave no rest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from dispatchflow.errors import ToolError
from dispatchflow.iree.profile_events import Launch, QueueOperation

_ALLOCATION = ("alloca", "dealloca")
_ONLY_ORDER = ("barrier",)

Span = tuple[int, int]
"""Start and end, in ns."""


class Split(msgspec.Struct, frozen=True):
    """The parts of the time of calls, in ns; the others sum to `call_ns` exactly.

    At each moment the first of these that applies has the time, so nothing counts twice:"""

    call_ns: int
    """Wall time that the benchmark tool measured."""
    dispatches_ns: int
    """At least one dispatch runs."""
    launching_ns: int
    """A queue executes, but no dispatch runs: its start, barriers, copies and fills."""
    allocation_ns: int
    """Memory is allocated or freed by a queue."""
    waiting_ns: int
    """An operation was submitted and has not ended, but none of the above runs.

    A worker wakes up, a dependency is pending, or a signal is on its way."""
    host_ns: int
    """The queues are empty: the host program runs, or wakes up after the last operation."""


def split_of(launches: Sequence[Launch], operations: Sequence[QueueOperation], call_ns: int) -> Split:
    """Split the time of calls.

    If only the submission of an operation is recorded, an allocation takes the time until it is ready, and an execution
    takes the time from the start of its first dispatch to the end of its last.

    Raises:
        ToolError: the events together took longer than the calls.
    """
    dispatching = [(launch.start_ns, launch.end_ns) for launch in launches]
    executing = _executing(launches)
    busy, allocating, pending = list(executing.values()), [], []
    for each in operations:
        start, end = _span(each, executing.get(each.submission))
        pending.append((min(each.submitted_ns, start), end))
        if each.kind in _ALLOCATION:
            allocating.append((start, end))
        elif each.kind not in _ONLY_ORDER:
            busy.append((start, end))
    dispatches = union_ns(dispatching)
    executes = union_ns([*dispatching, *busy])
    allocated = union_ns([*dispatching, *busy, *allocating])
    all_ns = union_ns([*dispatching, *busy, *allocating, *pending])
    if all_ns > call_ns:
        raise ToolError(
            "the events of the profile took longer than the calls",
            {"events": f"{all_ns} ns", "calls": f"{call_ns} ns"},
            "Measure again: a worker lost its CPU after it had reported to the host that it was done.",
        )
    return Split(call_ns, dispatches, executes - dispatches, allocated - executes, all_ns - allocated, call_ns - all_ns)


def spans_of(launches: Iterable[Launch], operations: Iterable[QueueOperation]) -> list[Span]:
    """Return when each operation was executed, as `split_of` takes it."""
    executing = _executing(launches)
    return [_span(each, executing.get(each.submission)) for each in operations]


def _executing(launches: Iterable[Launch]) -> dict[int, Span]:
    """Return submission → from the start of its first launch to the end of its last."""
    found: dict[int, Span] = {}
    for launch in launches:
        start, end = found.get(launch.submission, (launch.start_ns, launch.end_ns))
        found[launch.submission] = (min(start, launch.start_ns), max(end, launch.end_ns))
    return found


def _span(operation: QueueOperation, launches: Span | None) -> Span:
    if operation.start_ns is not None and operation.end_ns is not None:
        return operation.start_ns, operation.end_ns
    if launches is not None:
        return launches
    return operation.submitted_ns, max(operation.submitted_ns, operation.ready_ns)


def union_ns(spans: Iterable[Span]) -> int:
    """Return the time that at least one span covers."""
    total, until = 0, None
    for start, end in sorted(spans):
        if until is None or start >= until:
            total, until = total + end - start, end
        elif end > until:
            total, until = total + end - until, end
    return total


def own_times(launches: Sequence[Launch]) -> list[int]:
    """Return each launch's part of the time in which launches ran; the sum is the union, exactly.

    Launches that run at once share the time equally; the ns that cannot be shared go to those that began first."""
    own = [0] * len(launches)
    edges = sorted(
        (moment, kind, place)
        for place, launch in enumerate(launches)
        if launch.duration_ns
        for moment, kind in ((launch.start_ns, 1), (launch.end_ns, 0))
    )
    running: dict[int, None] = {}
    before = 0
    for moment, kind, place in edges:
        if running and moment > before:
            each, rest = divmod(moment - before, len(running))
            for rank, other in enumerate(running):
                own[other] += each + (rank < rest)
        before = moment
        if kind:
            running[place] = None
        else:
            del running[place]
    return own


def apportioned(parts: Sequence[int], total: int) -> list[int]:
    """Scale parts to whole numbers that sum to `total` exactly: the largest remainders are rounded up.

    All are 0 if the parts are."""
    whole = sum(parts)
    if not whole:
        return [0] * len(parts)
    scaled = [divmod(part * total, whole) for part in parts]
    missing = total - sum(each for each, _ in scaled)
    up = set(sorted(range(len(parts)), key=lambda place: -scaled[place][1])[:missing])
    return [each + (place in up) for place, (each, _) in enumerate(scaled)]
