"""Each event of a profile belongs to one site, or to a group of sites that look alike in the profile."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.programs_by_hand import Recorder, program

from dispatchflow.errors import ToolError
from dispatchflow.models.matching import matched, name_of


def groups(program_, recorder):
    return [group for group, _ in matched(program_, recorder.profile())]


def test_a_sequence_of_exports_is_its_command_buffer():
    recorder = Recorder()
    recorder.execute(1, ["a", "b", "a"])
    recorder.execute(2, ["b"])
    assert groups(program(["a", "b", "a"], ["b"]), recorder) == [(1,), (2,), (3,), (4,)]


def test_equal_command_buffers_are_distinguished_by_ascending_numbers():
    recorder = Recorder()
    for number in (7, 9, 7, 9):
        recorder.execute(number, ["a"])
    assert groups(program(["a"], ["a"]), recorder) == [(1,), (2,), (1,), (2,)]


def test_command_buffers_that_are_recorded_in_each_call_cannot_be_distinguished():
    recorder = Recorder()
    for number in (1, 2, 3, 4):
        recorder.execute(number, ["a"])
    assert groups(program(["a"], ["a"]), recorder) == [(1, 2)] * 4
    assert name_of((1, 2)) == "1|2"


def test_a_command_buffer_that_is_not_executed_leaves_the_other_unknown():
    recorder = Recorder()
    for _ in range(2):
        recorder.execute(5, ["a"])
    assert groups(program(["a"], ["a"]), recorder) == [(1, 2)] * 2


def test_neighbours_narrow_down_what_a_number_may_be():
    recorder = Recorder()
    for number, export in ((1, "a"), (2, "b")) * 2:
        recorder.execute(number, [export])
    assert groups(program(["a"], ["b"], ["a"]), recorder) == [(1,), (2,)] * 2  # number 1 is before b


def test_command_buffer_numbers_out_of_creation_order_distinguish_nothing():
    recorder = Recorder()
    for number, export in ((2, "b"), (3, "a"), (4, "a")) * 2:
        recorder.execute(number, [export])
    assert groups(program(["a"], ["b"], ["a"]), recorder) == [(2,), (1, 3), (1, 3)] * 2


def test_sites_of_initializers_have_no_events():
    recorder = Recorder()
    recorder.execute(1, ["a"])
    assert groups(program(["a"], at_load=["a"]), recorder) == [(1,)]


def test_an_unknown_dispatch_is_an_error_that_names_it():
    recorder = Recorder()
    recorder.execute(1, ["a", "z"])
    with pytest.raises(ToolError, match="a dispatch that is no site of the program, z"):
        groups(program(["a"]), recorder)


def test_an_unknown_sequence_is_an_error():
    recorder = Recorder()
    recorder.execute(1, ["a", "a"])
    with pytest.raises(ToolError, match="a sequence of dispatches that no command buffer of the program has") as error:
        groups(program(["a"]), recorder)
    assert error.value.facts == {"submission": 1, "dispatches": 2, "exports": "a, a"}


EXPORTS = st.lists(st.sampled_from("abc"), min_size=1, max_size=3)


@given(
    buffers=st.lists(EXPORTS, min_size=1, max_size=5),
    trips=st.data(),
    commands=st.booleans(),
)
def test_every_event_is_assigned_to_a_group_that_contains_its_site(buffers, trips, commands):
    # Each command buffer runs in its own loop, and is recorded once or in each execution.
    recorder, truth = Recorder(), []
    runs = [trips.draw(st.integers(0, 3)) for _ in buffers]
    kept = [trips.draw(st.booleans()) for _ in buffers]
    sites = program(*buffers)
    new = len(buffers)
    for _ in range(2):
        for buffer, exports in enumerate(buffers):
            for _ in range(runs[buffer]):
                new += 1
                recorder.execute(buffer + 1 if kept[buffer] else new, exports, commands=commands)
                truth += [site.number for site in sites.sites if site.command_buffer == buffer]
    found = groups(sites, recorder)
    assert len(found) == len(truth)
    assert all(site in group for site, group in zip(truth, found, strict=True))
    assert all(a == b or not set(a) & set(b) for a in found for b in found)
    if len({tuple(each) for each in buffers}) == len(buffers):
        assert all(len(group) == 1 for group in found)
    if all(kept) and all(runs):
        assert all(len(group) == 1 for group in found)
