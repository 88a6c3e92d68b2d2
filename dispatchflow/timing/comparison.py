"""Compare two series of measured times.

Each time is the mean time of a call in one block (a benchmark process)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

from dispatchflow.timing.statistics import interval_rank, median, summary

CONFIDENCE = 0.998
"""The confidence of the interval that `compare` gives for the ratio of two times.

With 95 %, five of 100 comparisons of equally fast code would report a change."""

MIN_ROUNDS = 10
"""The smallest number of rounds that gives an interval with the confidence `CONFIDENCE`.

In each round, the baseline and the candidate are measured once."""

MARGIN = 0.01
"""The smallest relative difference between two times that counts as faster or slower."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of comparing the times of a candidate with the times of a baseline."""

    ratio: float
    """The candidate's time divided by the baseline's. If the ratio is below 1, the candidate is faster."""
    low: float | None
    """The lower end of the ratio's interval. None if there are too few times for an interval."""
    high: float | None
    rounds: int
    """The length of the shorter series of times."""
    verdict: str
    """The verdict on the candidate: `faster` or `slower` than the baseline, `same`, or `undecided`."""

    @property
    def change(self) -> str:
        """The relative change and its interval in words, such as `+0.4%, between -0.5% and +1.3%`."""
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
    """Compare two series of times in ns that were measured in the same rounds.

    Time i of each series is from round i. In each round, baseline and candidate must be measured in random order.

    The result's ratio is the median of the rounds' ratios, candidate / baseline. Its interval has the given
    `confidence`.

    The margin is the larger of `floor` (a fraction) and 1 %. The verdict is `same` if the interval is within the
    margin. It is `faster` or `slower` if the interval excludes 1 and the ratio differs from 1 by at least the margin.
    Otherwise it is `undecided`.

    Raises:
        ValueError: there are no rounds, or the series differ in length."""
    # If baseline and candidate are equally fast, a round's ratio is as often above 1 as below, whatever the noise,
    # because the order is random. By the sign test, at most 2 of 1,000 such comparisons then give `faster` or `slower`.
    # Choose the number of rounds in advance: a test that is repeated after each round is wrong more often. `floor` must
    # cover effects that stay with one side, such as the memory pages of its copy of a file.
    if not baseline_ns:
        raise ValueError("no rounds")
    ordered = sorted(log(c / b) for b, c in zip(baseline_ns, candidate_ns, strict=True))
    count = len(ordered)
    rank = interval_rank(count, confidence)
    interval = None if rank is None else (exp(ordered[rank]), exp(ordered[count - 1 - rank]))
    return _classify(exp(median(ordered)), interval, count, floor)


def compare_apart(baseline_ns: Sequence[float], candidate_ns: Sequence[float], floor: float) -> Comparison:
    """Compare two series of times in ns that were measured separately, not alternately.

    The result's ratio is the candidate's median divided by the baseline's.
    Relative differences below `floor` do not count.

    Raises:
        ValueError: one of the series is empty."""
    # `floor` must be larger than changes of the machine's speed between the two series.
    old, new = summary(baseline_ns), summary(candidate_ns)
    interval = None
    if old.ci_low_ns and old.ci_high_ns and new.ci_low_ns and new.ci_high_ns:
        # The confidence is not known, because the machine's speed may change between the series.
        interval = (new.ci_low_ns / old.ci_high_ns, new.ci_high_ns / old.ci_low_ns)
    return _classify(new.median_ns / old.median_ns, interval, min(len(baseline_ns), len(candidate_ns)), floor)


def _classify(ratio: float, interval: tuple[float, float] | None, rounds: int, floor: float) -> Comparison:
    if interval is None:
        return Comparison(ratio, None, None, rounds, "undecided")
    (low, high), margin = interval, max(MARGIN, floor)
    # The margin is a factor, so that it is equal in both directions: 1.02 and 1 / 1.02.
    if 1 / (1 + margin) < low and high < 1 + margin:
        verdict = "same"
    elif high < 1 and ratio <= 1 / (1 + margin):
        verdict = "faster"
    elif low > 1 and ratio >= 1 + margin:
        verdict = "slower"
    else:
        verdict = "undecided"
    return Comparison(ratio, low, high, rounds, verdict)
