"""Profiles are read from the JSON lines that `iree-profile export` of IREE 3.13 writes."""

import json

import pytest

from dispatchflow.errors import ToolError
from dispatchflow.iree.profile_events import Launch, Profile, QueueOperation, Repetition, parse, repetitions

SCHEMA = {"schema_version": 15, "record_type": "schema", "format": "ireeperf-jsonl", "source_version_major": 1}
NONE = 4294967295
NAME = {
    "record_type": "executable_function",
    "executable_id": 1,
    "function_ordinal": 0,
    "name": "main_dispatch_0_matmul_64x64x64_f32",
    "workgroup_size": [1, 1, 1],
    "function_hash": None,
}


def lines(*records):
    return "".join(json.dumps({"schema_version": 15, **record}) + "\n" for record in (SCHEMA, NAME, *records))


def queue_event(op, submission, at, ready):
    return {
        "record_type": "queue_event",
        "event_id": submission,
        "op": op,
        "dependency_strategy": "inline",
        "submission_id": submission,
        "command_buffer_id": 0,
        "host_time_ns": at,
        "ready_host_time_ns": ready,
    }


def host_event(op, event, submission, start, end, **more):
    return {
        "record_type": "host_execution_event",
        "event_id": event,
        "submission_id": submission,
        "command_index": NONE,
        "executable_id": 0,
        "function_ordinal": NONE,
        "op": op,
        "key": None,
        "workgroup_count": [0, 0, 0],
        "start_host_time_ns": start,
        "end_host_time_ns": end,
        "valid": True,
        "tile_count": 0,
        "tile_duration_sum_ns": 0,
        **more,
    }


DISPATCH = {
    "command_buffer_id": 1,
    "executable_id": 1,
    "function_ordinal": 0,
    "key": NAME["name"],
    "workgroup_count": [16, 1, 1],
}


def dispatch(event, start, end, command=NONE):
    return host_event(
        "dispatch", event, 2, start, end, command_index=command, tile_count=16, tile_duration_sum_ns=500, **DISPATCH
    )


def test_a_cpu_profile_is_read_as_launches_and_queue_operations():
    text = lines(
        {"record_type": "device", "physical_device_ordinal": 0, "physical_device_uuid": None},
        queue_event("alloca", 1, 100, 105),
        queue_event("execute", 2, 120, 125),
        host_event("alloca", 1, 1, 107, 110),
        dispatch(3, 200, 400, command=2),
        dispatch(2, 410, 500, command=5),
        host_event("execute", 4, 2, 190, 510, command_buffer_id=1),
    )
    assert parse(text) == Profile(
        (
            Launch(2, 1, 2, NAME["name"], (16, 1, 1), 200, 400, 500),
            Launch(2, 1, 5, NAME["name"], (16, 1, 1), 410, 500, 500),
        ),
        (QueueOperation("alloca", 1, 100, 105, 107, 110), QueueOperation("execute", 2, 120, 125, 190, 510)),
        0,
    )
    assert parse(text).launches[0].duration_ns == 200


def test_without_places_launches_keep_the_order_of_events():
    text = lines(dispatch(3, 410, 500), dispatch(2, 200, 400))
    assert [(each.command, each.start_ns) for each in parse(text).launches] == [(None, 200), (None, 410)]


def sample(tick, host):
    times = {"host_time_begin_ns": host - 1, "host_time_end_ns": host + 1}
    return {"record_type": "clock_correlation", "device_tick": tick, **times}


def device_event(kind, **more):
    ticks = {"start_tick": 110, "end_tick": 130}
    return {"record_type": kind, "event_id": 1, "submission_id": 2, "valid": True, **ticks, **more}


def test_ticks_of_a_device_are_times_of_the_host():
    text = lines(
        sample(100, 5000),
        queue_event("execute", 2, 5010, 5011),
        device_event("dispatch_event", command_index=2, **DISPATCH),
        device_event("queue_device_event", op="execute", command_buffer_id=1),
        sample(200, 5200),
    )
    assert parse(text).launches == (Launch(2, 1, 2, NAME["name"], (16, 1, 1), 5020, 5060, None),)
    assert parse(text).operations == (QueueOperation("execute", 2, 5010, 5011, 5020, 5060),)


def test_dropped_records_are_added_up():
    drop = {"record_type": "diagnostic", "category": "truncated_chunk", "dropped_records": 27904}
    assert parse(lines(drop, drop | {"dropped_records": 1})).dropped == 27905


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "does not begin with its schema"),
        ("{", "cannot be read"),
        ("[]", "cannot be read"),
        (json.dumps(SCHEMA | {"schema_version": 16}), "schema version 16 of the profile is not known"),
        (json.dumps(SCHEMA | {"format": "x"}), "does not begin with its schema"),
        (lines(*({"record_type": "device", "physical_device_ordinal": n} for n in (0, 1))), "several devices"),
        (lines(dispatch(1, 5, 9) | {"executable_id": 7}), "has no name"),
        (lines(dispatch(1, 5, 9) | {"valid": False}), "has no time"),
        (lines(dispatch(1, 9, 5)), "ends before it begins"),
        (lines(device_event("dispatch_event", **DISPATCH)), "does not relate the device's clock"),
    ],
)
def test_an_invalid_profile_is_an_error(text, says):
    with pytest.raises(ToolError, match=says):
        parse(text)


def benchmark(**record):
    calls = {"name": "BM_f/process_time/real_time", "run_type": "iteration", "iterations": 4, "time_unit": "ms"}
    aggregate = {"name": "BM_f/process_time/real_time_mean", "run_type": "aggregate", "real_time": 1.0}
    return json.dumps({"context": {}, "benchmarks": [calls | {"real_time": 0.25} | record, aggregate]})


def test_repetitions_have_their_total_time():
    assert repetitions(benchmark()) == (Repetition(4, 1_000_000),)
    assert repetitions(benchmark(real_time=3.0, time_unit="us")) == (Repetition(4, 12_000),)


@pytest.mark.parametrize(
    "text",
    ["", "{}", '{"benchmarks": []}', benchmark(real_time=0), benchmark(time_unit="h"), benchmark(real_time="x"),
     benchmark(real_time=float("inf"))],
)  # fmt: skip
def test_a_benchmark_without_calls_is_an_error(text):
    with pytest.raises(ToolError, match=r"no calls|no time"):
        repetitions(text)
