"""Compare two series of blocks: by how much they differ, and whether that exceeds chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

from dispatchflow.timing.statistics import interval_rank, median, summary

CONFIDENCE = 0.998
"""Confidence of the interval of a ratio.

With 95 %, five of 100 comparisons of equal code would call one side faster."""

MIN_ROUNDS = 10
"""The fewest rounds for which an interval of this confidence exists.

That interval runs from the smallest ratio to the largest."""

MARGIN = 0.01
"""Smaller differences count as equal, however certain they are."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a comparison."""

    ratio: float
    """Time of the candidate divided by that of the baseline; below 1 the candidate is faster."""
    low: float | None
    """Lower end of the ratio's interval; None if there are too few rounds for this confidence."""
    high: float | None
    rounds: int
    verdict: str
    """`faster`, `slower`, `same`, or `undecided`."""

    @property
    def change(self) -> str:
        """The change in words, `+0.4%, between -0.5% and +1.3%`.

        Both ends are given, because the interval need not be symmetric about the ratio."""
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
    """Compare paired blocks.

    Block i of both series was measured in round i, one right after the other, in an order drawn at random.

    The ratio is the median of the rounds' ratios. Its interval consists of two of the sorted ratios (as in
    `statistics.summary`). The margin is the larger of `floor`, a fraction, and 1 %. The verdict is `same` if the whole
    interval is inside the margin. It is `faster` or `slower` if the interval excludes 1 and the ratio differs from 1 by
    at least the margin.

    Whatever the noise is (drift, bursts, two speeds, long tails), equal code has a ratio above 1 as often as below,
    because the order of the two blocks is random. By the sign test alone, `faster` and `slower` are therefore wrong in
    at most 2 of 1,000 comparisons, and the margin reduces that further. Two or more of 100 comparisons are wrong with a
    probability below 2 %.

    The random order does not remove an effect that stays with one side for all rounds, such as the memory pages of its
    copy of a file; `floor` is for that. Do not repeat the test after each round, which would invalidate these numbers:
    choose the number of rounds first.

    Raises:
        ValueError: there are no rounds, or the series differ in length.
    """
    if not baseline_ns:
        raise ValueError("no rounds")
    ordered = sorted(log(c / b) for b, c in zip(baseline_ns, candidate_ns, strict=True))
    count = len(ordered)
    rank = interval_rank(count, confidence)
    interval = None if rank is None else (exp(ordered[rank]), exp(ordered[count - 1 - rank]))
    return _classify(exp(median(ordered)), interval, count, floor)


def compare_apart(baseline_ns: Sequence[float], candidate_ns: Sequence[float], floor: float) -> Comparison:
    """Compare two measurements that shared no rounds.

    The ratio is that of the medians; its interval combines the ends of both intervals. This is weaker than `compare`:
    drift between the two measurements looks like a difference, and no confidence is guaranteed. `floor` must cover the
    drift.

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
    # The margin is a factor, so both directions are equal: 1.02 and 1 / 1.02.
    if 1 / (1 + margin) < low and high < 1 + margin:
        verdict = "same"
    elif high < 1 and ratio <= 1 / (1 + margin):
        verdict = "faster"
    elif low > 1 and ratio >= 1 + margin:
        verdict = "slower"
    else:
        verdict = "undecided"
    return Comparison(ratio, low, high, rounds, verdict)
