"""The events of a program's calls become a timeline. The tests write the events by hand."""

from __future__ import annotations

import json
from typing import Any

from dispatchflow.iree.profile_events import Launch, QueueOperation
from dispatchflow.models.site import Origin, Program, Site, SourceOperation
from dispatchflow.models.site_times import Calls
from dispatchflow.reports import timeline

PROGRAM = Program(
    (SourceOperation(0, "linalg.matmul", "up"), SourceOperation(1, "linalg.add", None, "net.mlir:4:8")),
    (
        Site(1, "main", False, "exe_0", "matmul", 0, 0, (Origin(0, "location"), Origin(1, "location"))),
        Site(2, "main", False, "exe_1", "copy", 0, 1),
        Site(3, "main", False, "exe_0", "matmul", 1, 0, (Origin(0, "location"),)),
    ),
)


def launch(export: str, start_ns: int, end_ns: int) -> Launch:
    return Launch(5, 7, 0, export, (4, 1, 1), start_ns, end_ns, None)


def slices(*launches: tuple[tuple[int, ...], Launch]) -> tuple[dict[int, str], list[dict[str, Any]]]:
    operations = (
        QueueOperation("alloca", 4, 90_000, 92_000, None, None),
        QueueOperation("execute", 5, 93_000, 93_000, None, None),
    )
    text = timeline.trace("net", PROGRAM, Calls(launches, operations, 1, 70_000, steady=True))
    events = json.loads(text)["traceEvents"]
    assert {"name": "process_name", "ph": "M", "pid": 1, "tid": 0, "args": {"name": "net"}} in events
    tracks = {each["tid"]: each["args"]["name"] for each in events if each["name"] == "thread_name"}
    return tracks, [each for each in events if each["ph"] == "X"]


def test_slices_have_the_names_of_sites_and_times_since_the_first_event() -> None:
    first, second = launch("matmul", 100_000, 130_500), launch("copy", 131_000, 140_000)
    tracks, found = slices(((1,), first), ((2,), second))
    shown = [(tracks[each["tid"]], each["name"], each["ts"], each["dur"]) for each in found]
    assert shown == [
        ("queue", "alloca", 0, 2),
        ("queue", "execute", 10, 40),  # from its first dispatch to its last: only its submission is recorded
        ("dispatches", "1 up, linalg.add net.mlir:4:8", 10, 30.5),
        ("dispatches", "2 copy", 41, 9),
    ]
    assert found[2]["args"] == {"kernel": "matmul", "workgroups": [4, 1, 1], "submission": 5}


def test_sites_that_cannot_be_distinguished_have_one_name() -> None:
    _, found = slices(((1, 3), launch("matmul", 100_000, 130_000)))
    assert found[-1]["name"] == "1|3 up, linalg.add net.mlir:4:8"


def test_slices_of_one_track_do_not_overlap() -> None:
    spans = [(100, 130), (110, 120), (115, 140), (120, 125), (130, 150)]
    tracks, found = slices(*(((2,), launch("copy", 1000 * start, 1000 * end)) for start, end in spans))
    placed = [(tracks[each["tid"]], each["ts"] + 90) for each in found if each["cat"] == "dispatches"]
    assert placed == [
        ("dispatches", 100), ("dispatches 2", 110), ("dispatches 3", 115), ("dispatches 2", 120), ("dispatches", 130),
    ]  # fmt: skip
