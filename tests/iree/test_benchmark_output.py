import json

import pytest

from dispatchflow.errors import ToolError
from dispatchflow.iree.benchmark_output import Block, parse, refuse_impossible


def record(name="BM_main/process_time/real_time", time=2.0, unit="us", kind="iteration", **more):
    return {
        "name": name,
        "run_type": kind,
        "iterations": 7,
        "real_time": time,
        "cpu_time": 9.9,
        "time_unit": unit,
    } | more


def text(*records) -> str:
    return json.dumps({"context": {"num_cpus": 2, "caches": []}, "benchmarks": list(records)})


@pytest.mark.parametrize(("unit", "ns"), [("ns", 2.5), ("us", 2.5e3), ("ms", 2.5e6), ("s", 2.5e9)])
def test_time_of_a_call_is_in_its_record_s_own_unit(unit, ns):
    assert parse(text(record(time=2.5, unit=unit))) == Block(ns, {}, 7)


def test_dispatches_are_summed_each_in_its_own_unit():
    found = parse(
        text(
            record(time=3, unit="ms"),
            record("BM_main/main_dispatch_0_pack", time=500, unit="us"),
            record("BM_main/main_dispatch_1_matmul", time=1_500_000, unit="ns"),
        )
    )
    assert (found.ns, found.dispatch_ns) == (3e6, 2e6)
    assert found.dispatches == {"main_dispatch_0_pack": 5e5, "main_dispatch_1_matmul": 1.5e6}


def test_order_of_the_records_does_not_matter():
    call, dispatch = record(time=3), record("BM_main/main_dispatch_0", time=2)
    assert parse(text(dispatch, call)) == parse(text(call, dispatch)) == Block(3e3, {"main_dispatch_0": 2e3}, 7)


def test_aggregates_are_ignored():
    mean = record("BM_main/process_time/real_time_mean", time=99, kind="aggregate")
    assert parse(text(mean, record(), mean)) == Block(2e3, {}, 7)


@pytest.mark.parametrize(
    "found",
    [
        *("", "not JSON", "[]", "null", "{}", '{"benchmarks": null}', text(), text()[:-2]),
        text(record("BM_main/main_dispatch_0")),
        text(record(kind="aggregate")),
        text(record(unit="h")),
        text({"name": "BM_main/real_time", "run_type": "iteration"}),
        *(text(1), text("x"), text(record(name=None)), text(record(iterations=1e999)), text(record(time="fast"))),
        "[" * 100_000,
        "\x00\ufffd" * 50,
    ],
)
def test_output_without_a_call_s_time_is_an_error_that_shows_it(found):
    with pytest.raises(ToolError, match="has no block") as caught:
        parse(found)
    assert caught.value.facts["found"] == found[:200]


@pytest.mark.parametrize("time", [0.0, -1.0, float("nan")])
def test_time_that_is_not_positive_is_an_error(time):
    with pytest.raises(ToolError, match="reports no time"):
        parse(text(record(time=time)))


@pytest.mark.parametrize("time", [-1.0, float("nan"), float("inf")])
def test_an_invalid_time_of_dispatches_is_an_error(time):
    with pytest.raises(ToolError, match="no time of its dispatches"):
        parse(text(record(), record("BM_main/main_dispatch_0", time=time)))


def test_an_error_that_the_tool_reports_is_passed_on():
    with pytest.raises(ToolError) as caught:
        parse(text(record(error_occurred=True, error_message="device lost")))
    assert caught.value.facts == {"found": "device lost"}


def test_time_that_is_infinite_is_an_error():
    with pytest.raises(ToolError):
        parse(text(record(time=float("inf"))))


@pytest.mark.parametrize(
    ("ns", "iterations", "told"),
    [
        (1e300, 100, "longer than the whole process"),
        (1e6, 301, "longer than the whole process"),
        (1e-9, 100, "less time than was asked for"),
        (1e3, 49, "less time than was asked for"),  # as if µs were ns
        (1e6, 49, "less time than was asked for"),
        (1e6, 0, "less time than was asked for"),
    ],
)
def test_calls_that_cannot_have_taken_this_long_are_an_error(ns, iterations, told):
    with pytest.raises(ToolError, match=told):
        refuse_impossible(Block(ns, {}, iterations), wall_s=0.3, block_s=0.1)


@pytest.mark.parametrize("iterations", [50, 100, 299])
def test_calls_that_may_have_taken_this_long_are_a_block(iterations):
    refuse_impossible(Block(1e6, {}, iterations), wall_s=0.3, block_s=0.1)


def test_a_dispatch_that_took_longer_than_the_process_is_an_error():
    with pytest.raises(ToolError, match="a dispatch took longer"):
        refuse_impossible(Block(1e6, {"main_dispatch_0": 4e8}, 100), wall_s=0.3, block_s=0.1)
