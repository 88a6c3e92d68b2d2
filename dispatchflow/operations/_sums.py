"""Compute bounds on the rounding errors of sums, for tolerances."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dispatchflow.mlir.types import ElementType

_GROWTH = 16.0
"""The largest value that `growth` returns: more than three times the largest ratio that was measured.

Sums of 8 to 65,536 terms were measured in several orders; see docs/verification.md, "What sums need"."""


def growth(terms: int) -> float:
    """Return a bound on |error| / (u · Σ|terms|) for a sum of `terms` terms with both signs.

    u is 2**-digits of the accumulator. For every sum, `terms` is a bound (Higham, Accuracy and Stability of Numerical
    Algorithms, 3.13). For many terms the result is `_GROWTH`, because with random signs the ratio does not grow:
    partial sums are about √terms, the error is about √terms · √terms · u, and Σ|terms| is about `terms`."""
    return min(float(terms), _GROWTH)


def drift(terms: int, element: ElementType) -> float:
    """Return a bound on the relative error of a sum of positive terms, added in any order.

    The bound is proportional to the number of terms (Jeannerod & Rump 2013). A bound proportional to the square root of
    this number would be too small. When the sum is much larger than the terms, all additions round in the same
    direction, until terms no longer change the sum."""
    return terms * element.unit


def inverse_drift(terms: int, element: ElementType) -> float:
    """Return a bound on the relative error of the inverse of a sum of positive terms."""
    off = drift(terms, element)
    return off / (1 - off)


def drifting(terms: int, element: ElementType) -> str | None:
    """Return why a sum of positive terms in a type cannot be verified; None if it can."""
    if drift(terms, element) <= 0.25:
        return None
    return f"rounding may change a sum of {terms} positive terms in {element.mlir} by more than a quarter"
