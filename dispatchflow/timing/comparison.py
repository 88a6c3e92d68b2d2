"""Two series of blocks → by how much they differ, and whether that is more than chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

from dispatchflow.timing.statistics import interval_rank, median, summary

CONFIDENCE = 0.998
"""Of the interval of a ratio. At 95 % five of 100 comparisons of equal code would call one side faster."""

MIN_ROUNDS = 10
"""The fewest that have an interval of this confidence: then all ratios must lie on one side."""

MARGIN = 0.01
"""What is less than this is the same, however sure it is."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """`ratio` is candidate over baseline: below 1 the candidate is faster.

    verdict: `faster`, `slower`, `same`, or `undecided`. The interval is None where none of this confidence exists.
    """

    ratio: float
    low: float | None
    high: float | None
    rounds: int
    verdict: str

    @property
    def change(self) -> str:
        """`+0.4%, between -0.5% and +1.3%`: the interval as it is, for it need not lie evenly about the ratio."""
        found = f"{self.ratio - 1:+.1%}"
        if self.low is None or self.high is None:
            return found
        return f"{found}, between {self.low - 1:+.1%} and {self.high - 1:+.1%}"


def compare(
    baseline_ns: Sequence[float],
    candidate_ns: Sequence[float],
    floor: float = 0.0,
    confidence: float = CONFIDENCE,
) -> Comparison:
    """Of paired blocks: the i-th of both were taken one after the other in round i, which of them first drawn by lot.

    The ratio is the median of the rounds' ratios, its interval two of these ratios in order (as in
    `statistics.summary`). `faster` or `slower`: the interval excludes 1, and the ratio is off by the margin at least;
    `same`: the whole interval is inside the margin. The margin is `floor`, a part of 1, but never below 1 %.

    Whatever the noise is (drift, bursts, two speeds, long tails), equal code has a ratio above 1 as often as below:
    the lot decides which block met it. So `faster` and `slower` are false in at most 2 of 1,000 comparisons by the
    sign test alone, and the margin makes that fewer; of 100 comparisons two or more are false with a probability
    below 2 %. The lot cannot help against what stays with one side for all rounds, such as the memory pages of its
    copy of a file: that is what the floor is for. Looking again after every round would spoil it: choose the number of
    rounds first.

    Raises:
        ValueError: no rounds, or not as many blocks on both sides.
    """
    if not baseline_ns:
        raise ValueError("no rounds")
    ordered = sorted(log(c / b) for b, c in zip(baseline_ns, candidate_ns, strict=True))
    count = len(ordered)
    rank = interval_rank(count, confidence)
    interval = None if rank is None else (exp(ordered[rank]), exp(ordered[count - 1 - rank]))
    return _classify(exp(median(ordered)), interval, count, floor)


def compare_apart(baseline_ns: Sequence[float], candidate_ns: Sequence[float], floor: float) -> Comparison:
    """Of two measurements that shared no rounds: the ratio of their medians, between the ends of both intervals.

    Weaker than `compare`: what drifted between the two looks like a difference, and no confidence is promised.
    `floor` must cover it.

    Raises:
        ValueError: one side has no blocks.
    """
    old, new = summary(baseline_ns), summary(candidate_ns)
    interval = None
    if old.ci_low_ns and old.ci_high_ns and new.ci_low_ns and new.ci_high_ns:
        interval = (new.ci_low_ns / old.ci_high_ns, new.ci_high_ns / old.ci_low_ns)
    return _classify(new.median_ns / old.median_ns, interval, min(len(baseline_ns), len(candidate_ns)), floor)


def _classify(ratio: float, interval: tuple[float, float] | None, rounds: int, floor: float) -> Comparison:
    """Call a ratio with its interval `same`, `faster`, `slower` or `undecided`."""
    if interval is None:
        return Comparison(ratio, None, None, rounds, "undecided")
    (low, high), margin = interval, max(MARGIN, floor)
    # As a factor, the same both ways: 1.02 and 1 / 1.02.
    if 1 / (1 + margin) < low and high < 1 + margin:
        verdict = "same"
    elif high < 1 and ratio <= 1 / (1 + margin):
        verdict = "faster"
    elif low > 1 and ratio >= 1 + margin:
        verdict = "slower"
    else:
        verdict = "undecided"
    return Comparison(ratio, low, high, rounds, verdict)
