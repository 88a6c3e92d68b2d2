"""Bounds on the rounding errors of sums, from which tolerances are computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dispatchflow.mlir.types import ElementType

_GROWTH = 16.0
"""Three times the largest ratio seen in any order of summation, for 8 to 65,536 terms.

See docs/verification.md, "What sums need"."""


def growth(terms: int) -> float:
    """Return a bound of |error| / (u · Σ|terms|) for a sum of terms with both signs.

    It is never more than `terms` (Higham, Accuracy and Stability of Numerical Algorithms, 3.13), and does not grow with
    `terms`: partial sums are about √terms, errors are √terms times the rounding of a partial sum, and Σ|terms| is about
    `terms`."""
    return min(float(terms), _GROWTH)


def drift(terms: int, element: ElementType) -> float:
    """Return the relative error bound of a sum of positive terms, in any order (Jeannerod & Rump 2013).

    The bound is linear in the number of terms and not in its square root: once the sum is much larger than the terms,
    all additions round to the same side, and in the end a term adds nothing."""
    return terms * element.unit


def inverse_drift(terms: int, element: ElementType) -> float:
    """Return the relative error bound of the inverse of a sum of positive terms."""
    off = drift(terms, element)
    return off / (1 - off)


def drifting(terms: int, element: ElementType) -> str | None:
    """Return why sums of positive terms in this type cannot be verified; None if they can be."""
    if drift(terms, element) <= 0.25:
        return None
    return f"rounding may change a sum of {terms} positive terms in {element.mlir} by more than a quarter"
