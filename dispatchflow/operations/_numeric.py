"""Functions that compute expected results with numpy.

Import this file inside functions, because importing numpy is slow."""

from __future__ import annotations

import numpy as np

from dispatchflow.operations.api import Array, ElementType

ULPS = 8.0
"""The assumed relative error of the compiler's exp, erf, tanh and roots, in units of u = 2**-digits.

IREE does not document these errors."""


def product(lhs: Array, rhs: Array) -> Array:
    """Return `lhs @ rhs`; integer sums wrap in int64.

    Integer sums below 2**53 are computed in float64 by BLAS, which is faster than numpy's integer loops."""
    if lhs.dtype != np.int64:
        result: Array = lhs @ rhs
        return result
    largest = [max(int(abs(array.max(initial=0))), int(abs(array.min(initial=0)))) for array in (lhs, rhs)]
    if largest[0] * largest[1] * lhs.shape[-1] < 2**53:
        return np.asarray((lhs.astype(np.float64) @ rhs.astype(np.float64)).astype(np.int64))
    found: Array = lhs @ rhs
    return found


def wrapped(array: Array, element: ElementType) -> Array:
    """Return integers wrapped to the type `element` in two's complement; floats are returned unchanged."""
    return array if element.is_float else array.astype(element.numpy_name).astype(array.dtype)
