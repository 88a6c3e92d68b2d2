"""Split the wall time of profiled calls into parts that do not overlap and add up to the whole time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from dispatchflow.errors import ToolError
from dispatchflow.iree.profile_events import Launch, QueueOperation

_ALLOCATION = ("alloca", "dealloca")
# kinds of operations that do no work: their time counts as waiting
_ONLY_ORDER = ("barrier",)

Span = tuple[int, int]
"""A span of time: its start and its end, in ns."""


class Split(msgspec.Struct, frozen=True):
    """The wall time of one or more calls, and the five parts that add up to this time; all in ns.

    If a point in time fits several parts, it counts only in the part whose field comes first."""

    call_ns: int
    """The wall time of the calls, as the benchmark tool measured it."""
    dispatches_ns: int
    """The time in which at least one dispatch runs."""
    launching_ns: int
    """The time in which a queue executes an operation, but no dispatch runs.

    For example, the operation is starting, is between two of its dispatches, or copies or fills memory."""
    allocation_ns: int
    """The time in which a queue allocates or frees memory."""
    waiting_ns: int
    """The time in which an operation is in a queue, but nothing runs and no memory is allocated or freed.

    For example, a worker is waking up, or the operation waits for a dependency."""
    host_ns: int
    """The time in which no operation is in a queue.

    In this time, the host program runs, or it wakes up after the last operation has ended."""


def split_of(launches: Sequence[Launch], operations: Sequence[QueueOperation], call_ns: int) -> Split:
    """Divide the wall time `call_ns` of profiled calls into parts such as waiting.

    Raises:
        ToolError: the launches and operations cover more time than `call_ns`."""
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
    """Return the time span (start, end), in ns, of each queue operation.

    The span is the recorded execution of the operation. If the execution is not recorded, the span covers all
    dispatches of the operation. If there is neither a record nor a dispatch, the span is the wait for dependencies,
    from `submitted_ns` to `ready_ns`."""
    executing = _executing(launches)
    return [_span(each, executing.get(each.submission)) for each in operations]


def _executing(launches: Iterable[Launch]) -> dict[int, Span]:
    """Return a dict from the number of each submission to the span of time in which its dispatches ran.

    The span begins when the submission's first dispatch starts, and ends when its last dispatch has ended."""
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
    """Return the total time, in ns, that is covered by at least one span."""
    total, until = 0, None
    for start, end in sorted(spans):
        if until is None or start >= until:
            total, until = total + end - start, end
        elif end > until:
            total, until = total + end - until, end
    return total


def own_times(launches: Sequence[Launch]) -> list[int]:
    """Return each launch's share of the total running time, in ns.

    A launch is an execution of a dispatch. If two launches run at the same time for 10 ns, each launch gets 5 ns. The
    sum of all shares is exactly the time in which at least one launch runs."""
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
    """Scale `parts` to integers whose sum is exactly `total`.

    The scaled numbers with the largest fractional parts are rounded up, and all others are rounded down. If all parts
    are 0, all results are 0."""
    whole = sum(parts)
    if not whole:
        return [0] * len(parts)
    scaled = [divmod(part * total, whole) for part in parts]
    missing = total - sum(each for each, _ in scaled)
    up = set(sorted(range(len(parts)), key=lambda place: -scaled[place][1])[:missing])
    return [each + (place in up) for place, (each, _) in enumerate(scaled)]
