"""How far a floating-point result of a user's module may be off. Nobody analysed these programs, so nothing can be
derived: what is expected says of itself how large the numbers are that it was made of.

An element that is what a sum cancelled to is off by rounding of the sum's terms, which are as large as the elements
around it. So the tolerance of an element is rtol · (its size + the size of its surroundings), and the question is what
its surroundings are. The root mean square of a whole result is made by its largest elements: a mask of -3.4e38, or one
row that is a million times the others, then lets every other element pass. Hence two tolerances:

- *tight*: the surroundings are the typical element of the same line and column, `_typical`, four times which is more
  than the root mean square of normally distributed numbers. What is within it is right.
- *loose*: they are the root mean square of all elements that can have been terms here. What is beyond it is wrong.
  Terms of size S leave rounding of size u·S (u = 2**-digits), also where what is expected was computed in f64, so
  elements 2**60 times the typical one cannot have been terms: a mask of finfo.min is none.

Between them nobody can tell without the program: such a result is `mistrusted`. Where elements are of similar size, as
results of random inputs are, both are the same. To each size the smallest normal number is added, for results that
underflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dispatchflow.mlir.types import ElementType
from dispatchflow.verification.reference import SMALLEST_NORMAL

if TYPE_CHECKING:
    from dispatchflow.operations.api import Array

_TYPICAL = 4.0
_LEAST = 16
"""So many elements a line needs for a median of its own."""

_SQUARABLE = 1e150
_NO_TERM = 2.0**60


def tolerances(expected: Array, element: ElementType, rtol: float) -> tuple[Array, Array]:
    """(tight, loose) of each element of `expected`, which is float64."""
    size = abs(expected)
    least = SMALLEST_NORMAL.get(element, 2.0**-126)
    ordered = np.sort(size[np.isfinite(size)], axis=None)
    typical = _typical(size)
    counts = np.searchsorted(ordered, typical * _NO_TERM, side="right")
    all_rms, terms_rms = _rms(ordered, ordered.size), _rms(ordered, counts)
    with np.errstate(invalid="ignore"):  # 0 × inf: what is expected to be infinite has no tolerance
        tight = rtol * (size + np.minimum(all_rms, _TYPICAL * typical) + least)
        return tight, np.maximum(tight, rtol * (size + terms_rms))


def _rms(ordered: Array, counts: Array | int) -> Array:
    """Of the first so many of these sizes, which are in order."""
    scale = max(1.0, ordered[-1] / _SQUARABLE) if ordered.size else 1.0
    sums = np.concatenate([[0.0], np.cumsum((ordered / scale) ** 2)])
    found: Array = scale * np.sqrt(sums[counts] / np.maximum(counts, 1))
    return found


def _typical(sizes: Array) -> Array:
    """Of each element the size of what stands around it: the product of its line's and its column's median size, by the
    median of all. So rows of different scale, and columns (channels) of different scale, are each judged by their own.
    Zeros are left out, of which masks and clipped results have many, and so are masks themselves."""
    counted = np.where(np.isfinite(sizes) & (sizes > 0), sizes, np.nan)
    ordered = np.sort(counted[np.isfinite(counted)], axis=None)
    small = ordered[ordered.size // 20] if ordered.size else 0.0
    counted[counted > small * _NO_TERM] = np.nan
    middle = float(_median(counted.reshape(1, -1), 0.0)[0, 0])
    if sizes.ndim < 2 or not middle:
        return np.full(sizes.shape, middle)
    lines = counted.reshape(-1, _length(sizes.shape))
    width = lines.shape[1] if len(lines) >= _LEAST else sizes.shape[-1]
    columns = _median(counted.reshape(-1, width).T, middle).T / middle
    found: Array = (_median(lines, middle) * np.ones_like(lines)).reshape(-1, width) * columns
    return found.reshape(sizes.shape)


def _length(shape: Sequence[int]) -> int:
    """Of a line: the last axis, or as many of the last ones as have enough elements for a median, 7 × 7 of an image.
    A column is then a place in a line; of too few lines, an index of the last axis."""
    length = 1
    for size in reversed(shape):
        length *= size
        if length >= _LEAST:
            break
    return length


def _median(lines: Array, otherwise: float) -> Array:
    """Of each line's numbers, the lower one of two; `otherwise` where they are too few, but not of a single line."""
    ordered = np.sort(lines, axis=1)  # NaN last
    counts = np.isfinite(ordered).sum(axis=1, keepdims=True)
    if not ordered.size:
        return np.full(counts.shape, otherwise)
    found = np.take_along_axis(ordered, np.maximum(counts - 1, 0) // 2, axis=1)
    least = _LEAST if len(lines) > 1 else 1
    median: Array = np.where(counts >= least, found, otherwise)
    return median
