"""Format the events of a program's calls as a trace in Chrome's JSON format.

The events are dispatches and operations of the runtime's queue. The web page ui.perfetto.dev displays such traces."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from dispatchflow.models import matching, rollup
from dispatchflow.models.call_split import Span, spans_of
from dispatchflow.models.matching import Group
from dispatchflow.models.site import Program
from dispatchflow.models.site_times import Calls

_QUEUE, _DISPATCHES = 1, 1001
"""The numbers of the first track for queue operations and the first track for dispatches.

A track is a line of events in the viewer of a trace. Viewers sort tracks by number."""

_Slice = tuple[Span, str, dict[str, Any]]
"""An event: (its start and end in ns, its name, the arguments that a viewer shows)."""


def trace(title: str, program: Program, calls: Calls) -> str:
    """Return a JSON trace of the queue operations and dispatches in measured calls.

    Each dispatch is named after its site in `program`. The trace begins at time 0 with the earliest event."""
    spans = spans_of([launch for _, launch in calls.launches], calls.operations)
    queue: list[_Slice] = [
        (span, each.kind, {"submission": each.submission}) for span, each in zip(spans, calls.operations, strict=True)
    ]
    names = {group: _name(program, group) for group, _ in calls.launches}
    dispatches: list[_Slice] = [
        (
            (each.start_ns, each.end_ns),
            names[group],
            {"kernel": each.export, "workgroups": list(each.workgroups), "submission": each.submission},
        )
        for group, each in calls.launches
    ]
    begin = min((start for (start, _), _, _ in [*queue, *dispatches]), default=0)
    events = [
        _label("process_name", title, 0),
        *_tracks("queue", _QUEUE, queue, begin),
        *_tracks("dispatches", _DISPATCHES, dispatches, begin),
    ]
    lines = ",\n".join(json.dumps(event, ensure_ascii=False) for event in events)
    return f'{{"displayTimeUnit": "ns", "traceEvents": [\n{lines}\n]}}'


def _name(program: Program, group: Group) -> str:
    """Return the name of a dispatch: its site's number and source operations, such as `3 conv1, relu1`.

    If no source operation of the site is known, the number is followed by the name of the kernel."""
    named = {operation.number: operation for operation in program.operations}
    sites = [site for site in program.sites if site.number in group]
    found = dict.fromkeys(rollup.operation_name(named[each.operation]) for site in sites for each in site.origins)
    return f"{matching.name_of(group)} {', '.join(found) or sites[0].export}"


def _label(kind: str, name: str, track: int) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": 1, "tid": track, "args": {"name": name}}


def _tracks(name: str, first: int, slices: Iterable[_Slice], begin: int) -> Iterator[dict[str, Any]]:
    """Yield the trace events of `slices`.

    Events that overlap are put on different tracks (lines of events in the viewer). The first track has the name `name`
    and the number `first`. `begin` is the time in ns at which the trace begins."""
    ends: list[int] = []
    for (start, end), text, arguments in sorted(slices, key=lambda each: each[0]):
        free = next((place for place, until in enumerate(ends) if until <= start), None)
        if free is None:
            free = len(ends)
            ends.append(end)
            yield _label("thread_name", f"{name} {free + 1}" if free else name, first + free)
        ends[free] = end
        times = {"ts": (start - begin) / 1000, "dur": (end - start) / 1000}
        yield {"name": text, "cat": name, "ph": "X", "pid": 1, "tid": first + free, **times, "args": arguments}
