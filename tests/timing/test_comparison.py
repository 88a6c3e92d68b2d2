import math
import random
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatchflow.timing.comparison import CONFIDENCE, MIN_ROUNDS, Comparison, compare, compare_apart
from dispatchflow.timing.statistics import interval_rank

# --- noise models: each yields one factor of the block time per block, in the order in which blocks are run


def independent(lot: random.Random) -> Iterator[float]:
    while True:
        yield math.exp(lot.gauss(0, 0.03))


def drifting(lot: random.Random) -> Iterator[float]:
    """Yield a factor for the time of each block (benchmark process) while the clock rate drifts.

    From block to block, the factor's logarithm grows by 0.0015 on average. After 56 blocks, the factor's median is
    1.09."""
    level = 0.0
    while True:
        level += lot.gauss(0.0015, 0.02)
        yield math.exp(level)


def bursts(lot: random.Random) -> Iterator[float]:
    """Yield a factor for the time of each block (benchmark process) while another process comes and goes.

    Blocks during which the other process runs take 2 to 20 % longer."""
    here = False
    while True:
        here = lot.random() < (0.7 if here else 0.08)
        yield math.exp(lot.gauss(0, 0.005)) * (1 + (lot.uniform(0.02, 0.2) if here else 0))


def two_speeds(lot: random.Random) -> Iterator[float]:
    slow = False
    while True:
        slow ^= lot.random() < 0.3
        yield (1.08 if slow else 1) * math.exp(lot.gauss(0, 0.004))


def long_tail(lot: random.Random) -> Iterator[float]:
    while True:
        yield math.exp(abs(lot.gauss(0, 0.02)) / max(1e-3, lot.random()))


NOISES = (independent, drifting, bursts, two_speeds, long_tail)
Noise = Callable[[random.Random], Iterator[float]]


def rounds(noise: Noise, count: int, effect: float, lot: random.Random) -> tuple[list[float], list[float]]:
    """Return the block times of a baseline, and those of a candidate that is slower by `effect`.

    `effect` is a fraction: 0.1 means 10 %. Each of the `count` rounds has one block of the baseline and one of the
    candidate, in random order."""
    factors, baseline, candidate = noise(lot), list[float](), list[float]()
    for _ in range(count):
        pair = [next(factors), next(factors)]
        lot.shuffle(pair)
        baseline.append(1e5 * pair[0])
        candidate.append(1e5 * (1 + effect) * pair[1])
    return baseline, candidate


def verdicts(noise: Noise, count: int, effect: float, times: int, floor: float = 0.0) -> list[str]:
    lot = random.Random(f"{noise.__name__} {count}")
    return [compare(*rounds(noise, count, effect, lot), floor).verdict for _ in range(times)]


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("count", [10, 28])
def test_at_most_one_of_a_hundred_pairs_of_equal_code_is_called_faster_or_slower(noise, count):
    words = verdicts(noise, count, 0.0, 600)
    false = [word in ("faster", "slower") for word in words]
    assert sum(false[:100]) <= 1
    assert sum(false) <= 4  # 1.2 (0.2 % of 600) are expected; chance exceeds 4 in less than one of 100 tests


def test_without_random_order_drift_would_be_a_verdict():
    lot = random.Random(1)
    warming = [math.exp(0.015 * i + lot.gauss(0, 0.002)) for i in range(28)]
    assert compare(warming[::2], warming[1::2]).verdict == "slower"
    shuffled = [lot.sample(pair, 2) for pair in zip(warming[::2], warming[1::2], strict=True)]
    assert compare(*zip(*shuffled, strict=True)).verdict == "undecided"


@pytest.mark.parametrize(
    ("noise", "count", "found"),
    [(independent, 28, 0.8), (drifting, 14, 0.9), (bursts, 28, 0.85), (two_speeds, 28, 0.65), (long_tail, 28, 0.4)],
)
def test_a_difference_of_five_percent_is_found(noise, count, found):
    words = verdicts(noise, count, 0.05, 200)
    assert words.count("slower") / 200 >= found
    assert words.count("faster") + words.count("same") == 0


def test_difference_below_the_floor_does_not_count():
    words = verdicts(drifting, 28, 0.015, 200, floor=0.03)
    assert words.count("slower") + words.count("faster") == 0
    assert words.count("same") > 50
    assert verdicts(drifting, 28, 0.015, 200).count("slower") > 50


TIMES = st.lists(st.tuples(st.floats(1, 1e6), st.floats(1, 1e6)), min_size=1, max_size=30)
WORDS = {"faster": "slower", "slower": "faster", "same": "same", "undecided": "undecided"}


@given(TIMES, st.sampled_from([0.0, 0.02, 0.5]))
def test_swapped_series_give_the_opposite_verdict(pairs, floor):
    old, new = zip(*pairs, strict=True)
    there, back = compare(old, new, floor), compare(new, old, floor)
    assert back.ratio == pytest.approx(1 / there.ratio)
    edges = [edge for edge in (there.ratio, there.low, there.high) if edge is not None]
    if all(abs(abs(math.log(edge)) - math.log1p(max(0.01, floor))) > 1e-9 for edge in edges):  # rounding decides
        assert back.verdict == WORDS[there.verdict]


@given(TIMES)
def test_the_interval_holds_the_ratio_and_exists_from_ten_rounds_on(pairs):
    old, new = zip(*pairs, strict=True)
    found = compare(old, new)
    assert found.rounds == len(pairs)
    if len(pairs) < MIN_ROUNDS:
        assert (found.low, found.high, found.verdict) == (None, None, "undecided")
    else:
        assert found.low <= found.ratio <= found.high
        assert found.low == pytest.approx(sorted(n / o for o, n in pairs)[interval_rank(len(pairs), CONFIDENCE)])


def test_ten_rounds_are_the_fewest():
    assert interval_rank(MIN_ROUNDS, CONFIDENCE) == 0
    assert interval_rank(MIN_ROUNDS - 1, CONFIDENCE) is None


@pytest.mark.parametrize(
    ("candidate", "floor", "verdict"),
    [
        ([100.5] * 10, 0.0, "same"),  # no doubt, but less than a percent
        ([103.0] * 10, 0.0, "slower"),
        ([103.0] * 10, 0.05, "same"),
        ([97.0] * 10, 0.0, "faster"),
        ([103.0] * 9 + [99.0], 0.0, "undecided"),  # one of ten rounds is enough for doubt
        ([103.0] * 13 + [50.0], 0.0, "slower"),  # one of fourteen is not
        ([100.5] * 9 + [102.0], 0.0, "undecided"),
        ([103.0] * 9, 0.0, "undecided"),
    ],
)
def test_verdict_needs_the_interval_and_the_margin(candidate, floor, verdict):
    assert compare([100.0] * len(candidate), candidate, floor).verdict == verdict


def test_comparison_refuses_empty_series_and_series_of_different_lengths():
    with pytest.raises(ValueError, match="no rounds"):
        compare([], [])
    with pytest.raises(ValueError, match="shorter"):
        compare([1.0, 2.0], [1.0])


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ([100.0] * 6, [104.0] * 14, "same"),
        ([100.0] * 6, [150.0] * 14, "slower"),
        ([100.0] * 6, [50.0] * 14, "faster"),
        ([90.0, 95.0, 100.0, 105.0, 110.0, 160.0], [150.0] * 14, "undecided"),  # the intervals touch
        ([100.0] * 5, [150.0] * 14, "undecided"),  # no interval on one side
    ],
)
def test_separate_series_differ_if_their_intervals_do_by_more_than_the_floor(old, new, verdict):
    assert compare_apart(old, new, 0.1).verdict == verdict


def test_change_is_shown_with_its_interval_even_if_asymmetric():
    # Half of the width on both sides would wrongly seem to exclude 0 %.
    assert Comparison(1.249, 0.95, 1.499, 10, "undecided").change == "+24.9%, between -5.0% and +49.9%"
    assert Comparison(0.9, None, None, 3, "undecided").change == "-10.0%"
