"""Each site has a time. The parts of a call's time, such as waiting, sum exactly to the call's time."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.programs_by_hand import Recorder, program

from dispatchflow.errors import ToolError
from dispatchflow.iree.profile_events import Launch, QueueOperation, Repetition
from dispatchflow.models.call_split import Split, apportioned, own_times, split_of, union_ns
from dispatchflow.models.site_times import (
    AT_LOAD,
    NOT_LAUNCHED,
    Block,
    ProgramTimes,
    SiteBlock,
    load_ns,
    program_times,
    read_block,
)


def launch(start, end, submission=1):
    return Launch(submission, 1, 0, "a", (1, 1, 1), start, end, None)


def operation(kind, submitted, start, end, submission=1, ready=None):
    return QueueOperation(kind, submission, submitted, ready or submitted, start, end)


def test_each_ns_of_a_call_counts_in_one_part_only():
    launches = [launch(20, 40), launch(30, 50)]
    operations = [
        operation("alloca", 0, 2, 10, 1),
        operation("execute", 5, 15, 60, 1),
        operation("dealloca", 50, 58, 70, 2),
    ]
    assert split_of(launches, operations, 100) == Split(
        call_ns=100,
        dispatches_ns=30,
        launching_ns=15,
        allocation_ns=18,  # 2 to 10, and 60 to 70
        waiting_ns=7,  # 0 to 2, and 10 to 15
        host_ns=30,
    )


def test_allocations_without_a_reported_end_last_from_submission_until_ready():
    operations = [operation("alloca", 0, None, None, 1, ready=4), operation("execute", 5, None, None, 2)]
    split = split_of([launch(20, 40, submission=2)], operations, 50)
    assert split == Split(50, dispatches_ns=20, launching_ns=0, allocation_ns=4, waiting_ns=15, host_ns=11)


def test_events_that_took_longer_than_the_calls_are_an_error():
    with pytest.raises(ToolError, match="took longer than the calls"):
        split_of([launch(0, 101)], [], 100)


def test_launches_at_once_share_the_time():
    launches = [launch(0, 10), launch(4, 10), launch(4, 9), launch(20, 20)]
    assert own_times(launches) == [4 + 2 + 1, 2, 1, 0]  # three share 5 ns; the 2 ns left over go to the first two


SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)).map(lambda pair: (pair[0], sum(pair))), max_size=8)


@given(SPANS)
def test_own_times_sum_to_the_union(spans):
    own = own_times([launch(*span) for span in spans])
    assert sum(own) == union_ns(spans) == len({ns for start, end in spans for ns in range(start, end)})
    assert all(0 <= each <= end - start for each, (start, end) in zip(own, spans, strict=True))


@given(SPANS, st.lists(st.tuples(st.sampled_from(["execute", "alloca", "barrier", "copy"]), *[st.integers(0, 30)] * 3)))
def test_parts_sum_to_the_call(spans, operations):
    launches = [launch(*span) for span in spans]
    made = [operation(kind, at, at + wait, at + wait + took) for kind, at, wait, took in operations]
    split = split_of(launches, made, 200)
    parts = (split.dispatches_ns, split.launching_ns, split.allocation_ns, split.waiting_ns, split.host_ns)
    assert sum(parts) == split.call_ns
    assert min(parts) >= 0


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=9), st.integers(1, 1000))
def test_parts_of_one_call_sum_exactly_and_are_off_by_less_than_1_ns(parts, calls):
    total = (sum(parts) + calls // 2) // calls
    found = apportioned(parts, total)
    assert sum(found) == total
    assert all(abs(each - part * total / max(1, sum(parts))) < 1.001 for each, part in zip(found, parts, strict=True))


def recorded(calls, *buffers, commands=True):
    recorder = Recorder()
    for _ in range(calls):
        for number, exports in enumerate(buffers, 1):
            recorder.execute(number, exports, commands=commands)
    return recorder


def test_only_the_last_repetition_counts():
    recorder = recorded(4, ["a", "b"], ["a"])
    block = read_block(program(["a", "b"], ["a"]), recorder.profile(), [Repetition(2, 10**6), Repetition(2, 400)])
    assert block.steady
    assert block.calls == 2
    assert block.split.call_ns == 400
    assert block.sites == tuple(SiteBlock((number,), 2, 20, 20, 40, (4, 1, 1)) for number in (1, 2, 3))


def test_executions_of_calls_that_differ_are_averaged_over_all_calls():
    recorder = Recorder()
    for exports in (["a"], ["a"], ["b"]):
        recorder.execute(1 if exports == ["a"] else 2, exports)
    block = read_block(program(["a"], ["b"]), recorder.profile(), [Repetition(1, 10**6), Repetition(1, 10**6)])
    assert not block.steady
    assert block.calls == 2
    times = program_times(program(["a"], ["b"]), [block])
    assert [time.executions for time in times.sites] == [1.0, 0.5]
    assert not times.steady


def test_dropped_records_are_an_error_with_a_hint():
    with pytest.raises(ToolError, match="incomplete: 3 records were dropped") as error:
        read_block(program(["a"]), recorded(2, ["a"]).profile(dropped=3), [Repetition(1, 100)] * 2)
    assert "less to do" in error.value.hint


def test_sites_without_a_time_have_a_reason():
    made = program(["a"], ["b"], at_load=["a"])
    block = read_block(made, recorded(2, ["a"]).profile(), [Repetition(1, 100)] * 2)
    times = program_times(made, [block])
    assert times.untimed == {2: NOT_LAUNCHED, 3: AT_LOAD}
    assert [time.name for time in times.sites] == ["1"]


def test_the_time_at_load_is_that_of_the_launches_before_each_call():
    made = program(["a"], at_load=["c", "d"])
    times = program_times(made, [read_block(made, recorded(2, ["a"]).profile(), [Repetition(1, 100)] * 2)])
    assert load_ns(made, times, recorded(3, ["c", "d"], ["a"]).profile(), 3) == 20
    assert load_ns(made, times, recorded(3, ["c", "d"], ["a"]).profile(dropped=1), 3) is None
    assert load_ns(made, times, recorded(3, ["a"], ["c", "d"]).profile(), 3) is None  # not before the call
    assert load_ns(made, times, recorded(3, ["a"]).profile(), 3) is None
    assert load_ns(made, times, recorded(4, ["c"], ["a"]).profile(), 3) is None  # 4 launches are not 3 loads


def test_a_call_without_dispatches_is_host_time_only():
    times = program_times(program(), [read_block(program(), Recorder().profile(), [Repetition(3, 99)] * 2)])
    assert times.sites == ()
    assert times.split == Split(33, 0, 0, 0, 0, 33)


def test_medians_are_those_of_blocks_and_parts_those_of_the_typical_block():
    made = program(["a"])
    blocks = [read_block(made, recorded(2, ["a"]).profile(), [Repetition(1, ns)] * 2) for ns in (300, 100, 200)]
    times = program_times(made, blocks)
    assert times.split.call_ns == 200
    assert times.sites[0].blocks_ns == (10.0, 10.0, 10.0)
    assert times.sites[0].summary.median_ns == 10
    assert times.sites[0].share == 10 / 200
    assert times.sites[0].workers == 2.0


def test_blocks_and_times_can_be_stored():
    made = program(["a", "b"], at_load=["c"])
    block = read_block(made, recorded(2, ["a", "b"]).profile(), [Repetition(1, 100)] * 2)
    times = program_times(made, [block])
    assert msgspec.json.decode(msgspec.json.encode(block), type=Block) == block
    assert msgspec.json.decode(msgspec.json.encode(times), type=ProgramTimes) == times


def test_sites_that_one_block_cannot_distinguish_are_one_group_in_all_blocks():
    made = program(["a"], ["a"])
    apart = read_block(made, recorded(2, ["a"], ["a"]).profile(), [Repetition(1, 100)] * 2)
    recorder = Recorder()
    for number in range(4):
        recorder.execute(number, ["a"])
    together = read_block(made, recorder.profile(), [Repetition(1, 100)] * 2)
    times = program_times(made, [apart, together])
    assert times.ambiguous == ((1, 2),)
    assert times.sites[0].name == "1|2"
    assert times.sites[0].executions == 2
    assert times.sites[0].blocks_ns == (20.0, 20.0)


@given(
    buffers=st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=3), min_size=1, max_size=4),
    calls=st.integers(1, 4),
    slack=st.integers(0, 1000),
)
def test_sites_and_the_other_parts_sum_to_the_call(buffers, calls, slack):
    recorder = recorded(2 * calls, *buffers)
    busy = recorder.now - 1000
    made = program(*buffers)
    block = read_block(made, recorder.profile(), [Repetition(calls, busy + slack)] * 2)
    times = program_times(made, [block])
    split = times.split
    own = sum(time.own_ns for time in times.sites)
    assert own == split.dispatches_ns
    assert own + split.launching_ns + split.allocation_ns + split.waiting_ns + split.host_ns == split.call_ns
    assert sum(site.executions for site in block.sites) == len(recorder.launches) // 2
    assert all(time.executions == 1 for time in times.sites)
