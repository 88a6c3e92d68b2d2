"""Bounds on the rounding of sums, which tolerances are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dispatchflow.mlir.types import ElementType

_GROWTH = 16.0
"""Three times what any order of summation showed, for 8 to 65,536 terms (docs/verification.md, "What sums need")."""


def growth(terms: int) -> float:
    """A bound of |error| / (u · Σ|terms|) of a sum of so many terms with both signs. It is `terms` at most (Higham,
    Accuracy and Stability of Numerical Algorithms, 3.13), and does not grow with them: partial sums are about
    √terms, errors about √terms of their roundings, and Σ|terms| is about `terms`."""
    return min(float(terms), _GROWTH)


def drift(terms: int, element: ElementType) -> float:
    """How far a sum of so many positive terms may be off, as a part of it, in any order (Jeannerod & Rump 2013).

    No root is taken: beside a sum that outgrew them, terms are all rounded to one side, in the end to nothing.
    """
    return terms * element.unit


def inverse_drift(terms: int, element: ElementType) -> float:
    """The same of the inverse of such a sum."""
    off = drift(terms, element)
    return off / (1 - off)


def drifting(terms: int, element: ElementType) -> str | None:
    """Why a sum of so many positive terms in this type cannot be judged, None when it can. The reason of a skip."""
    if drift(terms, element) <= 0.25:
        return None
    return f"a right sum of {terms} positive terms in {element.mlir} may be off by more than a quarter"
