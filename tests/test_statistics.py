import statistics
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatchflow.protocols import PROTOCOLS, Protocol
from dispatchflow.statistics import decision, interval_rank, median, summary

TIMES = st.lists(st.floats(1, 1e9), min_size=1, max_size=40)


def coverage(count: int, rank: int) -> Fraction:
    """P(x_rank ≤ median ≤ x_(count-1-rank)), exactly."""
    return 1 - 2 * Fraction(sum(comb(count, i) for i in range(rank + 1)), 2**count)


@pytest.mark.parametrize("count", [*range(1, 31), 60, 99, 100])
def test_interval_is_the_narrowest_of_its_confidence(count):
    rank = interval_rank(count)
    if rank is None:
        assert count < 6
        assert coverage(count, 0) < Fraction(95, 100)
    else:
        assert coverage(count, rank) >= Fraction(95, 100)
        assert rank + 1 >= (count + 1) // 2 or coverage(count, rank + 1) < Fraction(95, 100)


@pytest.mark.parametrize("count", range(6, 31))
def test_interval_holds_the_median_of_a_skewed_population_in_95_of_100_cases(count):
    ordered = np.sort(np.random.default_rng(count).lognormal(0, 1, (20_000, count)))
    rank = interval_rank(count)
    held = (ordered[:, rank] <= 1) & (ordered[:, count - 1 - rank] >= 1)
    assert held.mean() >= 0.946  # 95 %, less 2.5 standard errors of the simulation


@pytest.mark.parametrize("count", range(1, 6))
def test_fewer_than_six_blocks_have_no_interval(count):
    found = summary([float(i + 1) for i in range(count)])
    assert (found.ci_low_ns, found.ci_high_ns, found.half_width) == (None, None, None)


def test_interval_of_six_blocks_is_their_whole_range():
    found = summary([5.0, 1.0, 4.0, 2.0, 6.0, 3.0])
    assert (found.min_ns, found.ci_low_ns, found.median_ns, found.ci_high_ns) == (1, 1, 3.5, 6)
    assert found.half_width == pytest.approx(2.5 / 3.5)


@given(TIMES)
def test_summary_is_ordered_and_its_median_is_the_median(times):
    found = summary(times)
    assert found.median_ns == statistics.median(times) == median(sorted(times))
    assert found.min_ns == min(times)
    if found.ci_low_ns is not None:
        assert found.min_ns <= found.ci_low_ns <= found.median_ns <= found.ci_high_ns <= max(times)
        assert {found.ci_low_ns, found.ci_high_ns} <= set(times)


@given(TIMES, st.randoms())
def test_summary_does_not_depend_on_the_order_of_blocks(times, random):
    shuffled = random.sample(times, len(times))
    assert summary(shuffled) == summary(times)


@given(TIMES, st.sampled_from([0.5, 2.0, 1024.0]))
def test_half_width_does_not_depend_on_the_unit(times, scale):
    assert summary([scale * t for t in times]).half_width == summary(times).half_width


def test_no_blocks_have_no_summary():
    with pytest.raises(ValueError, match="no blocks"):
        summary([])


PROTOCOL = Protocol("p", 1, warmup_s=0, block_s=0, min_blocks=6, max_blocks=10, budget_s=5.0, precision=0.01)
STILL, LOUD = [100.0] * 9, [100.0, 110.0] * 5


@pytest.mark.parametrize(
    ("blocks", "spent_s", "decided"),
    [
        ([], 0.0, None),
        ([], 99.0, None),
        (STILL[:5], 0.0, None),
        (STILL[:5], 5.0, "noisy"),
        (STILL[:6], 0.0, "measured"),
        (STILL[:6], 99.0, "measured"),
        (LOUD[:6], 4.9, None),
        (LOUD[:6], 5.0, "noisy"),
        (LOUD[:9], 0.0, None),
        (LOUD, 0.0, "noisy"),
        ([99.0, 100.0, 100.0, 100.0, 100.0, 101.0], 0.0, "measured"),
        ([98.9, 100.0, 100.0, 100.0, 100.0, 101.0], 0.0, None),
    ],
)
def test_case_is_decided_by_precision_then_by_blocks_and_budget(blocks, spent_s, decided):
    assert decision(blocks, spent_s, PROTOCOL) == decided


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=lambda protocol: protocol.id)
def test_every_protocol_can_have_an_interval(protocol):
    assert interval_rank(protocol.min_blocks) is not None
    assert protocol.min_blocks <= protocol.max_blocks
