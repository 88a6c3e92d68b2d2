"""Compute tolerances for floating-point results of a user's MLIR file or ONNX model.

The tolerances follow from the magnitudes of the expected values (docs/modules.md#tolerance)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dispatchflow.mlir.types import ElementType
from dispatchflow.verification.reference import SMALLEST_NORMAL

if TYPE_CHECKING:
    from dispatchflow.operations.api import Array

_TYPICAL = 4.0
"""The factor of the typical magnitude (`_typical`) in the tight tolerance.

The tight tolerance of an element x is rtol · (|x| + m + smallest normal number). Here m is the smaller of two numbers:
`_TYPICAL` · typical magnitude, and the root mean square of all elements."""

_LEAST = 16
"""The smallest number of elements of which a median is computed."""

_SQUARABLE = 1e150
"""A magnitude whose square is finite in float64; larger elements are scaled before they are squared."""

_NO_TERM = 2.0**60
"""The loose tolerance ignores elements above this multiple of the typical magnitude.

An example of such an element is finfo.min in a mask. A sum of typical magnitude is assumed to have no such term.
Even in f64, with the unit roundoff 2**-53, the rounding error of such a term would be 2**60 · 2**-53 = 128 times the
typical magnitude. `_typical` ignores elements above this multiple of a small element (the 5 % quantile)."""


def tolerances(expected: Array, element: ElementType, rtol: float) -> tuple[Array, Array]:
    """Return (tight, loose): two arrays of tolerances with the shape of `expected`.

    An element is right if its error is within the tight tolerance, and wrong if its error is above the loose
    tolerance. If some errors are between the two and none is above, the verdict is `mistrusted`. `expected` is in
    float64; `element` is the type of the results' elements."""
    size = abs(expected)
    least = SMALLEST_NORMAL.get(element, 2.0**-126)
    ordered = np.sort(size[np.isfinite(size)], axis=None)
    typical = _typical(size)
    counts = np.searchsorted(ordered, typical * _NO_TERM, side="right")
    all_rms, terms_rms = _rms(ordered, ordered.size), _rms(ordered, counts)
    with np.errstate(invalid="ignore"):  # 0 × inf: an expected infinity has no tolerance
        # `least` is for results that underflow.
        # Rounding in a user's program is not analyzed: other elements show how large the terms of a sum may be.
        tight = rtol * (size + np.minimum(all_rms, _TYPICAL * typical) + least)
        return tight, np.maximum(tight, rtol * (size + terms_rms))


def _rms(ordered: Array, counts: Array | int) -> Array:
    """Return the root mean square of the n smallest numbers in `ordered`, for each n in `counts`.

    `ordered` is sorted in ascending order."""
    scale = max(1.0, ordered[-1] / _SQUARABLE) if ordered.size else 1.0
    sums = np.concatenate([[0.0], np.cumsum((ordered / scale) ** 2)])
    found: Array = scale * np.sqrt(sums[counts] / np.maximum(counts, 1))
    return found


def _typical(sizes: Array) -> Array:
    """Return each element's typical magnitude: median of its line * median of its column / median of all.

    `_length` defines a line, such as a row of a matrix. Zeros and very large values do not count."""
    # Lines and columns (channels) with different scales are each judged by their own scale. Two kinds of elements are
    # left out of the medians: zeros, because masks and clipped results have many zeros, and very large values, such
    # as finfo.min in a mask.
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
    """Return how many elements form a line of a result with this shape.

    A line extends along the last axis, or along several last axes if the last one has too few elements."""
    # A line needs `_LEAST` elements for its median. If the last axis has fewer, the line extends along the last two
    # axes, the last three, and so on, until it has enough. In an image of 7 × 7 elements, a line extends along both
    # axes.
    #
    # A column consists of the elements at the same position in all lines. If there are fewer than `_LEAST` lines, it
    # consists of the elements with the same index along the last axis.
    length = 1
    for size in reversed(shape):
        length *= size
        if length >= _LEAST:
            break
    return length


def _median(lines: Array, otherwise: float) -> Array:
    """Return the lower median of the numbers in each row of `lines`; NaNs are ignored.

    If a row has fewer than `_LEAST` numbers, the argument `otherwise` takes the place of the row's median. If there is
    only one row, one number is enough."""
    ordered = np.sort(lines, axis=1)  # NaN last
    counts = np.isfinite(ordered).sum(axis=1, keepdims=True)
    if not ordered.size:
        return np.full(counts.shape, otherwise)
    found = np.take_along_axis(ordered, np.maximum(counts - 1, 0) // 2, axis=1)
    least = _LEAST if len(lines) > 1 else 1
    median: Array = np.where(counts >= least, found, otherwise)
    return median
