"""Compute the median of measured times, and the median's confidence interval.

Each time is the mean time of a call in one block (a benchmark process)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import atan, comb, cos, exp, log, pi, sin, sqrt

from dispatchflow.timing.protocols import Protocol

CONFIDENCE = 0.95
Z = 1.96
"""The half-width of a normal distribution's 95 % interval, in standard deviations."""
Z_ONE_SIDED = 1.645
"""The 95 % quantile of a normal distribution, in standard deviations."""

NOISY = 0.05
"""A case is noisy if the half-width of its median's interval is above this fraction of the median.

This is the default. The user can set another limit."""

LONGEST_WAIT = 0.02
"""A benchmark process is disturbed if it waits for a CPU longer than this fraction of its wall time.

For a block of the protocol `std`, 2 % are about 3 ms, which is one time slice of the scheduler."""

_MOST_CORRELATED = 0.9


@dataclass(frozen=True, slots=True)
class Summary:
    """Statistics of a case's mean call times, in ns."""

    median_ns: float
    min_ns: float
    ci_low_ns: float | None
    """The lower end of the median's 95 % interval. None if there are fewer than six benchmark processes."""
    ci_high_ns: float | None

    @property
    def half_width(self) -> float | None:
        """Half of the width of the median's interval, divided by the median. None if there is no interval."""
        if self.ci_low_ns is None or self.ci_high_ns is None:
            return None
        return (self.ci_high_ns - self.ci_low_ns) / 2 / self.median_ns

    @property
    def log_half_width(self) -> float | None:
        """Half of the difference log(`ci_high_ns`) - log(`ci_low_ns`). None if there is no interval."""
        if self.ci_low_ns is None or self.ci_high_ns is None:
            return None
        return log(self.ci_high_ns / self.ci_low_ns) / 2


def summary(blocks_ns: Sequence[float]) -> Summary:
    """Compute the median of measured times, the median's 95 % interval, and the smallest time.

    `blocks_ns` has the mean call time of each benchmark process, in the order of measurement. If successive times are
    correlated, the interval is wider.

    Raises:
        ValueError: `blocks_ns` is empty."""
    # The ends of the interval are two of the sorted blocks, so no distribution is assumed and no block is dropped.
    if not blocks_ns:
        raise ValueError("no blocks")
    ordered, count = sorted(blocks_ns), len(blocks_ns)
    middle, rank = median(ordered), interval_rank(count)
    if rank is None:
        return Summary(middle, ordered[0], None, None)
    wider = widening(blocks_ns)
    low, high = (middle * (block / middle) ** wider for block in (ordered[rank], ordered[count - 1 - rank]))
    return Summary(middle, ordered[0], low, high)


def median(values: Iterable[float]) -> float:
    """Return the median of `values`, which must not be empty."""
    # Python's `statistics` is not used, because its import of `fractions` and `decimal` would slow every run.
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def widening(blocks_ns: Sequence[float]) -> float:
    """Return the factor by which correlated times widen the confidence interval of their median.

    The factor applies to the interval of log(time). `blocks_ns` has the times in the order of measurement."""
    logs = [log(ns) for ns in blocks_ns]
    count, mean = len(logs), sum(logs) / len(logs)
    apart = [value - mean for value in logs]
    square = sum(value * value for value in apart)
    if square <= 1e-12 * count:
        return 1.0
    r = sum(a * b for a, b in pairwise(apart)) / square
    # For n independent times, r has the mean -1/n and the standard error 1/sqrt(n).
    if r <= 1 / sqrt(count) - 1 / count:
        return 1.0
    # The bias of r is corrected as in Kendall 1954.
    r = min(r + (1 + 3 * r) / count, _MOST_CORRELATED)
    return sqrt((1 + r) / (1 - r))


@lru_cache
def interval_rank(count: int, confidence: float = CONFIDENCE) -> int | None:
    """Return the rank r for which x_r and x_(count-1-r) are the ends of the median's interval.

    The x are the measured values in ascending order, beginning with x_0. The interval is the narrowest interval
    with at least this `confidence`. Returns None if there is no such interval. Source: David & Nagaraja, Order
    Statistics, 7.1."""
    best, below = None, 0.0
    for rank in range(count // 2):
        below += comb(count, rank) * 0.5**count
        if 1 - 2 * below < confidence:
            break
        best = rank
    return best


def at_confidence(interval_ns: Sequence[float], blocks: int, confidence: float) -> tuple[float, float]:
    """Convert a 95 % interval of a time to a higher confidence, and return the ends of the new interval.

    `interval_ns` is (low end, middle, high end), from `blocks` measured times. The new interval is symmetric in
    log(time), with a half-width proportional to the quantile of Student's t for `blocks` - 1 degrees of freedom."""
    # A distribution of log(time) is assumed, because two of nine blocks enclose no interval of 99.9 %.
    # docs/measurement.md shows how often such intervals contain the true value.
    low_ns, middle_ns, high_ns = interval_ns
    further = max(log(high_ns / middle_ns), log(middle_ns / low_ns))
    freedom = blocks - 1
    further *= student_quantile(confidence, freedom) / student_quantile(CONFIDENCE, freedom)
    return middle_ns * exp(-further), middle_ns * exp(further)


@lru_cache(maxsize=1024)
def student_quantile(confidence: float, freedom: int) -> float:
    """Return the t with P(|T| ≤ t) = `confidence`, for Student's T with `freedom` degrees of freedom."""
    low, high = 0.0, 1.0
    while _student(high, freedom) < confidence:
        low, high = high, 2 * high
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _student(middle, freedom) < confidence else (low, middle)
    return high


def _student(t: float, freedom: int) -> float:
    """Return P(|T| ≤ t) for Student's T. Source: Abramowitz & Stegun, 26.7.3 and 26.7.4."""
    angle, odd = atan(t / sqrt(freedom)), freedom % 2
    term = cos(angle) if odd else 1.0
    total = term if freedom > 1 else 0.0
    for k in range(2 + odd, freedom - 1, 2):
        term *= cos(angle) ** 2 * (k - 1) / k
        total += term
    total *= sin(angle)
    return 2 / pi * (angle + total) if odd else total


def waited_too_long(waited: float | None) -> bool:
    """Return whether other programs disturbed a benchmark process.

    `waited` is the fraction of the process's wall time in which the process waited for a CPU. If `waited` is None
    (unknown), the result is False."""
    return waited is not None and waited > LONGEST_WAIT


def disturbed(blocks: int, count: int) -> bool:
    """Return whether more than a quarter of a case's benchmark processes were disturbed.

    `blocks` is the number of processes that other programs disturbed, and `count` is the number of all processes."""
    return blocks > count / 4


def decided(count: int, spent_s: float, protocol: Protocol) -> bool:
    """Return whether enough benchmark processes of a case have run.

    `count` processes have run, in `spent_s` seconds. They are enough if `count` has reached `protocol.blocks`, or if at
    least one process has run and the time budget of `protocol` is spent."""
    return count >= protocol.blocks or (count > 0 and spent_s >= protocol.budget_s)


def noisy(blocks_ns: Sequence[float], limit: float = NOISY) -> bool:
    """Return whether the uncertainty of the median of `blocks_ns` is above `limit` or unknown.

    The uncertainty is half of the width of the median's interval, divided by the median."""
    half_width = summary(blocks_ns).half_width
    return half_width is None or half_width > limit
