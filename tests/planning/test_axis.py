import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dispatchflow.planning.axis import MAX_SIZE, AxisError, axis

SIZES = st.integers(1, 5000)


@given(start=SIZES, steps=st.integers(0, 60), step=st.integers(1, 500))
def test_range_ends_at_its_stop_when_a_step_reaches_it(start, steps, step):
    found = axis(f"{start}:{start + steps * step}:{step}")
    assert found.values() == tuple(start + i * step for i in range(steps + 1))
    assert len(found) == steps + 1
    assert found.notes == ()


@given(start=SIZES, steps=st.integers(0, 60), step=st.integers(2, 500), data=st.data())
def test_range_that_steps_over_its_stop_ends_before_it_and_says_so(start, steps, step, data):
    stop = start + steps * step + data.draw(st.integers(1, step - 1))
    found = axis(f"{start}:{stop}:{step}")
    assert found.values() == tuple(start + i * step for i in range(steps + 1))
    (note,) = found.notes
    assert f"ends at {start + steps * step}" in note
    assert f"no step reaches {stop}" in note


@given(start=SIZES, steps=st.integers(0, 60), step=st.integers(1, 500))
def test_range_downwards_is_the_same_range_reversed(start, steps, step):
    stop = start + steps * step
    assert axis(f"{stop}:{start}:-{step}").values() == axis(f"{start}:{stop}:{step}").values()[::-1]


@given(start=SIZES, stop=SIZES)
def test_range_without_step_takes_every_size_upwards(start, stop):
    if start > stop:
        with pytest.raises(AxisError, match=rf"'{start}:{stop}' never reaches {stop}"):
            axis(f"{start}:{stop}")
    else:
        assert axis(f"{start}:{stop}").values() == tuple(range(start, stop + 1))


@given(low=st.integers(0, 30), high=st.integers(0, 30))
def test_powers_take_both_ends(low, high):
    if low > high:
        with pytest.raises(AxisError, match="goes down"):
            axis(f"2^{low}..2^{high}")
    else:
        assert axis(f"2^{low}..2^{high}").values() == tuple(2**e for e in range(low, high + 1))
        assert axis(f"2^{low}").values() == (2**low,)


@given(st.lists(SIZES, min_size=1))
def test_list_keeps_its_order_and_each_size_once(sizes):
    once = tuple(dict.fromkeys(sizes))
    assert axis(sizes).values() == once
    assert axis(",".join(map(str, sizes))).values() == once
    assert axis([str(size) for size in sizes]).values() == once


def test_parts_of_every_form_join_in_the_order_written():
    found = axis([64, "8:10", "2^3..2^5", "7,9"])
    assert found.values() == (64, 8, 9, 10, 16, 32, 7)


@pytest.mark.parametrize(
    "written",
    [
        *(0, -1, "0", "-64", MAX_SIZE + 1, "2^31", "2^99", "2^999", "0:64", "64:0:-1", "-4:4", f"1:{MAX_SIZE + 1}"),
        *("", " ", ":", "64:", ":64", "1:2:3:4", "64:128:0", "64:128:-8", "128:64:8", "64-128", "64;128", "64 128"),
        *("1e3", "1.5", "0x40", "2^4..8", "2^", "2**4", "n", "64,", ",64", 1.5, True, None, {}, [], [[64]], [64, None]),
    ],
)
def test_text_that_is_not_a_size_is_refused(written):
    with pytest.raises(AxisError):
        axis(written)


@given(st.text(alphabet="0123456789:^.,- ", max_size=12) | st.text(max_size=8))
@example("1:2147483647")
@example("2147483647:1:-1")
def test_any_text_is_an_axis_of_allowed_sizes_or_refused(text):
    try:
        found = axis(text)
    except AxisError:
        return
    assert len(found) > 0
    assert all(0 < end <= MAX_SIZE for part in found.parts for end in (part[0], part[-1]))


def test_number_of_thousands_of_digits_is_refused():
    with pytest.raises(AxisError):
        axis("9" * 5000)


def test_longest_range_is_counted_without_being_spelled_out():
    began = time.thread_time()
    assert len(axis(f"1:{MAX_SIZE}")) == MAX_SIZE
    assert time.thread_time() - began < 0.1


def test_range_with_step_0_is_refused_with_this_reason():
    with pytest.raises(AxisError, match="'64:128:0' has step 0"):
        axis("64:128:0")
