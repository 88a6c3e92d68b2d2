"""Blocks → median, interval, noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import atan, comb, cos, exp, log, pi, sin, sqrt

from dispatchflow.timing.protocols import Protocol

CONFIDENCE = 0.95
Z = 1.96
"""Half of a normal distribution's 95 % interval, in standard deviations."""

NOISY = 0.05
"""A half-width above this serves no decision, unless the user says another."""

LONGEST_WAIT = 0.02
"""Of a block's process's time: 3 ms, one slice of the scheduler. A neighbour on one of its CPUs takes half of it."""

_MOST_CORRELATED = 0.9


@dataclass(frozen=True, slots=True)
class Summary:
    """Of block times in ns, as they were taken. The interval is None below six blocks, where none of this confidence
    exists."""

    median_ns: float
    min_ns: float
    ci_low_ns: float | None
    ci_high_ns: float | None

    @property
    def half_width(self) -> float | None:
        """Half of the interval's width, relative to the median."""
        if self.ci_low_ns is None or self.ci_high_ns is None:
            return None
        return (self.ci_high_ns - self.ci_low_ns) / 2 / self.median_ns

    @property
    def log_half_width(self) -> float | None:
        """Of the logarithms, which add up where parts of the noise do."""
        if self.ci_low_ns is None or self.ci_high_ns is None:
            return None
        return log(self.ci_high_ns / self.ci_low_ns) / 2


def summary(blocks_ns: Sequence[float]) -> Summary:
    """Median, minimum and the interval of the median: two blocks of the sorted list, so that no distribution is assumed
    and no block dropped; moved apart where blocks resemble the block before them (`widening`).

    Raises:
        ValueError: no blocks.
    """
    if not blocks_ns:
        raise ValueError("no blocks")
    ordered, count = sorted(blocks_ns), len(blocks_ns)
    middle, rank = median(ordered), interval_rank(count)
    if rank is None:
        return Summary(middle, ordered[0], None, None)
    wider = widening(blocks_ns)
    low, high = (middle * (block / middle) ** wider for block in (ordered[rank], ordered[count - 1 - rank]))
    return Summary(middle, ordered[0], low, high)


def median(ordered: Sequence[float]) -> float:
    """Of an ordered, non-empty sequence."""
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def widening(blocks_ns: Sequence[float]) -> float:
    """How much wider an interval is that allows for the correlation of each block with the one before: the square root
    of (1 + r) / (1 - r), as of a mean in a first-order autoregressive series. 1 where r is within its standard error.

    The sample's r is too low by (1 + 3 r) / n (Kendall 1954). Above 0.9 it is not to be had from so few blocks.
    """
    logs = [log(ns) for ns in blocks_ns]
    count, mean = len(logs), sum(logs) / len(logs)
    apart = [value - mean for value in logs]
    square = sum(value * value for value in apart)
    if square <= 1e-12 * count:
        return 1.0
    r = sum(a * b for a, b in pairwise(apart)) / square
    if r <= 1 / sqrt(count) - 1 / count:
        return 1.0
    r = min(r + (1 + 3 * r) / count, _MOST_CORRELATED)
    return sqrt((1 + r) / (1 - r))


@lru_cache
def interval_rank(count: int, confidence: float = CONFIDENCE) -> int | None:
    """The 0-based rank r for which [x_r, x_(count-1-r)] holds the median with at least this confidence; None if none
    does.

    P(median < x_r) = P(Binomial(count, 1/2) ≤ r): the narrowest symmetric interval (David & Nagaraja, Order
    Statistics, 7.1).
    """
    best, below = None, 0.0
    for rank in range(count // 2):
        below += comb(count, rank) * 0.5**count
        if 1 - 2 * below < confidence:
            break
        best = rank
    return best


def at_confidence(interval_ns: Sequence[float], blocks: int, confidence: float) -> tuple[float, float]:
    """A 95 % interval (low, middle, high) of so many blocks as one of a higher confidence: both ends as far from the
    middle as the further one, in logarithms, and further by the ratio of the quantiles of Student's t with one degree
    of freedom less than blocks.

    No two of nine blocks have 99.9 %, so that more needs a distribution; the further end, because nine blocks do not
    tell how far each end is by itself. How often it is true: docs/measurement.md."""
    low_ns, middle_ns, high_ns = interval_ns
    further = max(log(high_ns / middle_ns), log(middle_ns / low_ns))
    freedom = blocks - 1
    further *= student_quantile(confidence, freedom) / student_quantile(CONFIDENCE, freedom)
    return middle_ns * exp(-further), middle_ns * exp(further)


@lru_cache(maxsize=1024)
def student_quantile(confidence: float, freedom: int) -> float:
    """The t with P(|T| ≤ t) = confidence."""
    low, high = 0.0, 1.0
    while _student(high, freedom) < confidence:
        low, high = high, 2 * high
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _student(middle, freedom) < confidence else (low, middle)
    return high


def _student(t: float, freedom: int) -> float:
    """P(|T| ≤ t), in closed form for whole degrees of freedom (Abramowitz & Stegun, 26.7.3 and 26.7.4)."""
    angle, odd = atan(t / sqrt(freedom)), freedom % 2
    term = cos(angle) if odd else 1.0
    total = term if freedom > 1 else 0.0
    for k in range(2 + odd, freedom - 1, 2):
        term *= cos(angle) ** 2 * (k - 1) / k
        total += term
    total *= sin(angle)
    return 2 / pi * (angle + total) if odd else total


def waited_too_long(waited: float | None) -> bool:
    """Whether a block is disturbed: for so much of its time a thread was ready to run and others had its CPU."""
    return waited is not None and waited > LONGEST_WAIT


def disturbed(blocks: int, count: int) -> bool:
    """Whether a measurement is, of which so many of `count` blocks are: more than its median bears."""
    return blocks > count / 4


def decided(count: int, spent_s: float, protocol: Protocol) -> bool:
    """Whether a case has its blocks, or its time is spent. What the blocks say plays no part."""
    return count >= protocol.blocks or (count > 0 and spent_s >= protocol.budget_s)


def noisy(blocks_ns: Sequence[float], limit: float = NOISY) -> bool:
    """Whether the median is too uncertain for a decision: its interval is wider than ± `limit`, or there is none."""
    half_width = summary(blocks_ns).half_width
    return half_width is None or half_width > limit
