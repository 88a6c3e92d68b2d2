"""Judge results as equal, within bound or different, and find the element with the largest error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dispatchflow.verification.verdict_words import PASSED

if TYPE_CHECKING:
    from dispatchflow.operations.api import Array


@dataclass(frozen=True, slots=True)
class Worst:
    """The element with the largest error."""

    index: tuple[int, ...]
    got: str
    expected: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one result."""

    word: str
    """One of `verdict_words.VERIFICATIONS`."""
    score: float | None = None
    """The largest quotient of an element's error and its tolerance; None if no tolerance was used.

    The score is at most 1 if no element is wrong."""
    worst: Worst | None = None
    wrong: int = 0
    """The number of wrong elements."""

    @property
    def passed(self) -> bool:
        return self.word in PASSED


def compare_bits(got: Array, expected: Array) -> Verdict:
    """Compare results bit by bit.

    All NaNs are equal. 0 and -0 are equal too, because an empty sum may be either of them."""
    with np.errstate(invalid="ignore"):  # signalling NaN, difference of two infinities
        wide_got, wide = got.astype(np.float64), expected.astype(np.float64)
        agree = (got == expected) | (np.isnan(wide_got) & np.isnan(wide))
        off = abs(wide_got - wide)
    if agree.all():
        return Verdict("equal")
    # The -1 is below the error of every wrong element, which can be 0.0: 2**62 and 2**62 + 1 are equal in float64.
    error = np.where(agree, -1.0, np.nan_to_num(off, nan=np.inf))
    return Verdict("different", worst=_worst(error, got, expected), wrong=int((~agree).sum()))


def compare_bounded(got: Array, reference: Array, tolerance: Array) -> Verdict:
    """Compare each element with its tolerance: |got - reference| ≤ tolerance.

    NaN equals NaN. An infinity equals only an infinity of the same sign."""
    if not got.size:
        return Verdict("equal")
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        wide = got.astype(np.float64)
        error = abs(wide - reference)
        parts = np.nan_to_num(error / tolerance, nan=np.inf)
    same = (wide == reference) | (np.isnan(wide) & np.isnan(reference))
    agree = same | (np.isfinite(error) & (error <= tolerance))
    score = np.where(same, 0.0, parts)
    word = "within bound" if agree.all() else "different"
    return Verdict(word, float(score.max()), _worst(score, got, reference), int((~agree).sum()))


def _worst(error: Array, got: Array, expected: Array) -> Worst:
    index = tuple(int(i) for i in np.unravel_index(int(error.argmax()), error.shape))
    wanted = expected[index]
    if got.dtype.itemsize < 8 and expected.dtype == np.float64:  # nine digits tell all numbers of 32 bits apart
        wanted = np.float64(f"{wanted:.9g}")
    return Worst(index, str(got[index]), str(wanted))
