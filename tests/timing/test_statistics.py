import statistics
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatchflow.timing.protocols import PROTOCOLS, Protocol
from dispatchflow.timing.statistics import (
    at_confidence,
    decided,
    interval_rank,
    median,
    noisy,
    student_quantile,
    summary,
    widening,
)

TIMES = st.lists(st.floats(1, 1e9), min_size=1, max_size=40)


def coverage(count: int, rank: int) -> Fraction:
    """Return the exact probability that x[rank] ≤ median ≤ x[count-1-rank].

    The median is that of the population; x is a sorted sample of `count` independent values."""
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
    assert held.mean() >= 0.946  # 95 % minus 2.5 standard errors of the simulation


@pytest.mark.parametrize("count", range(1, 6))
def test_fewer_than_six_blocks_have_no_interval(count):
    found = summary([float(i + 1) for i in range(count)])
    assert (found.ci_low_ns, found.ci_high_ns, found.half_width) == (None, None, None)


def test_interval_of_six_blocks_is_their_whole_range():
    found = summary([5.0, 1.0, 4.0, 2.0, 6.0, 3.0])
    assert (found.min_ns, found.median_ns) == (1, 3.5)
    assert (found.ci_low_ns, found.ci_high_ns, found.half_width) == pytest.approx((1, 6, 2.5 / 3.5))


@given(TIMES)
def test_summary_is_ordered_and_its_median_is_the_median(times):
    found = summary(times)
    assert found.median_ns == statistics.median(times) == median(sorted(times))
    assert found.min_ns == min(times)
    if found.ci_low_ns is not None:
        assert found.ci_low_ns <= found.median_ns <= found.ci_high_ns
        if widening(times) == 1.0:
            ends = {found.ci_low_ns, found.ci_high_ns}
            assert all(min(abs(end / time - 1) for time in times) < 1e-9 for end in ends)


@given(TIMES, st.randoms())
def test_median_does_not_depend_on_the_order_of_blocks(times, random):
    shuffled = summary(random.sample(times, len(times)))
    assert (shuffled.median_ns, shuffled.min_ns) == (summary(times).median_ns, summary(times).min_ns)


@given(st.lists(st.integers(100, 200), min_size=6, max_size=40), st.sampled_from([0.5, 2.0, 1024.0]))
def test_half_width_does_not_depend_on_the_unit(times, scale):
    assert summary([scale * t for t in times]).half_width == pytest.approx(summary(times).half_width, rel=1e-6)


def test_no_blocks_have_no_summary():
    with pytest.raises(ValueError, match="no blocks"):
        summary([])


PROTOCOL = Protocol("p", 1, warmup_s=0, block_s=0, blocks=10, span_s=0, budget_s=5.0)


@pytest.mark.parametrize(
    ("count", "spent_s", "done"),
    [(0, 0.0, False), (0, 99.0, False), (1, 4.9, False), (1, 5.0, True), (9, 4.9, False), (10, 0.0, True)],
)
def test_case_is_decided_by_its_blocks_and_its_budget(count, spent_s, done):
    assert decided(count, spent_s, PROTOCOL) is done


def test_case_is_noisy_where_its_interval_is_wider_than_the_limit():
    calm, loud = [98.0, 100, 101, 99, 102, 100, 101, 99, 100], [80.0, 100, 120, 90, 110, 100, 85, 115, 100]
    assert [noisy(calm), noisy(loud), noisy(calm, 0.005), noisy(loud, 0.3)] == [False, True, True, False]
    assert noisy([100.0] * 5), "five blocks are too few for an interval"


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=lambda protocol: protocol.id)
def test_every_protocol_has_little_more_than_the_wanted_confidence(protocol):
    # Each number of blocks is the smallest at which intervals of its rank have 95 % confidence.
    rank = interval_rank(protocol.blocks)
    assert rank > interval_rank(protocol.blocks - 1)
    assert 0.95 <= coverage(protocol.blocks, rank) < 0.966


def series(rho: float, count: int, number: int, seed: int = 7) -> np.ndarray:
    """Return random series of block times, as an array of shape (`number`, `count`).

    The times have the median 100 ns and 1 % noise. The correlation between successive blocks of a series is `rho`."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(number, count))
    for i in range(1, count):
        noise[:, i] = rho * noise[:, i - 1] + np.sqrt(1 - rho * rho) * noise[:, i]
    return 100 * np.exp(0.01 * noise)


@pytest.mark.parametrize(("rho", "held"), [(0.0, 0.95), (0.5, 0.88), (0.9, 0.68)])
def test_interval_is_wider_if_successive_blocks_correlate(rho, held):
    # Without the widening, only 83 % and 44 % of the intervals of correlated blocks contain the median.
    found = [summary(blocks) for blocks in series(rho, 15, 4000).tolist()]
    assert np.mean([s.ci_low_ns <= 100 <= s.ci_high_ns for s in found]) >= held


def test_independent_blocks_are_hardly_widened():
    factors = [widening(blocks) for blocks in series(0.0, 15, 4000).tolist()]
    assert np.median(factors) == 1.0
    assert np.mean(factors) < 1.15


def test_equal_blocks_are_not_widened():
    assert widening([100.0] * 9) == 1.0
    assert summary([100.0] * 9).half_width == 0.0


@pytest.mark.parametrize(
    ("freedom", "quantiles"),  # at 95, 99 and 99.9 % (two-sided), from printed tables
    [(1, (12.706, 63.657, 636.62)), (2, (4.303, 9.925, 31.599)), (5, (2.571, 4.032, 6.869)),
     (8, (2.306, 3.355, 5.041)), (14, (2.145, 2.977, 4.140)), (41, (2.020, 2.701, 3.544))],
)  # fmt: skip
def test_quantiles_of_students_t_are_those_of_the_tables(freedom, quantiles):
    found = [student_quantile(confidence, freedom) for confidence in (0.95, 0.99, 0.999)]
    assert found == pytest.approx(quantiles, rel=3e-4)


def test_interval_at_95_percent_reaches_as_far_as_its_further_end_and_grows_with_the_confidence():
    assert at_confidence((99.0, 100.0, 110.0), 9, 0.95) == pytest.approx((100 / 1.1, 110.0))
    wide, wider = (at_confidence((99.0, 100.0, 101.0), 9, confidence) for confidence in (0.99, 0.9999))
    assert wider[0] < wide[0] < 99 < 101 < wide[1] < wider[1]
