"""Compute bounds on the rounding errors of sums. Verification allows errors up to these bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dispatchflow.mlir.types import ElementType

_GROWTH = 16.0
"""The largest factor that `growth` returns.

In measurements, |error| / (u · Σ|terms|) of a sum was less than a third of this factor, where u is the unit roundoff.
Sums of 8 to 65,536 terms were measured, each added in several orders; see docs/verification.md, "What sums need"."""


def growth(terms: int) -> float:
    """Return a factor that limits the rounding error of a sum of positive and negative numbers.

    The allowed error is this factor times the unit roundoff times the sum of the magnitudes. The factor is `terms`,
    but at most 16."""
    # At most `terms`, to first order in u (Higham, Accuracy and Stability of Numerical Algorithms, 3.13).
    # With random signs, at most `_GROWTH`, however many terms there are (docs/verification.md, "What sums need").
    # Sums of terms that all have one sign need `drift` instead.
    return min(float(terms), _GROWTH)


def drift(terms: int, element: ElementType) -> float:
    """Return a bound on the relative error of a sum of positive terms, added in any order.

    The bound is proportional to the number of terms (Jeannerod & Rump 2013)."""
    # A bound proportional to √terms would be too small, because roundings need not cancel: 4096 ones that are added
    # one after another in f16 give 2048, because 2048 + 1 rounds to 2048.
    return terms * element.unit


def inverse_drift(terms: int, element: ElementType) -> float:
    """Return a bound on the relative error of the quotient 1 / sum, for a sum of positive terms."""
    off = drift(terms, element)
    return off / (1 - off)


def drifting(terms: int, element: ElementType) -> str | None:
    """Return why a sum of positive terms cannot be verified; None if it can be verified.

    The sum cannot be verified if rounding in the type `element` may change it by more than a quarter."""
    if drift(terms, element) <= 0.25:
        return None
    return f"rounding may change a sum of {terms} positive terms in {element.mlir} by more than a quarter"
