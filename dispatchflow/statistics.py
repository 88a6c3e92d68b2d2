"""Blocks → median, interval, noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb

from dispatchflow.protocols import Protocol

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Summary:
    """Of block times in ns. The interval is None below six blocks, where none of this confidence exists."""

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


def summary(blocks_ns: Sequence[float]) -> Summary:
    """Median, minimum and the order-statistic interval of the median: no distribution is assumed, no block dropped.

    Raises:
        ValueError: no blocks.
    """
    if not blocks_ns:
        raise ValueError("no blocks")
    ordered, count = sorted(blocks_ns), len(blocks_ns)
    rank = interval_rank(count)
    low, high = (ordered[rank], ordered[count - 1 - rank]) if rank is not None else (None, None)
    return Summary(median(ordered), ordered[0], low, high)


def median(ordered: Sequence[float]) -> float:
    """Of an ordered, non-empty sequence."""
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


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


def decision(blocks_ns: Sequence[float], spent_s: float, protocol: Protocol) -> str | None:
    """`measured` or `noisy` when the case is decided, None while another block is wanted."""
    if len(blocks_ns) >= protocol.min_blocks:
        half_width = summary(blocks_ns).half_width
        if half_width is not None and half_width <= protocol.precision:
            return "measured"
    if len(blocks_ns) >= protocol.max_blocks or (blocks_ns and spent_s >= protocol.budget_s):
        return "noisy"
    return None
