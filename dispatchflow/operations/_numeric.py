"""numpy that references share. Imported where something is made: numpy takes longer than a plan."""

from __future__ import annotations

import numpy as np

from dispatchflow.operations.api import Array, ElementType

ULPS = 8.0
"""So many units of rounding an exponential, an error function or a root of the compiler may be off: an allowance, as no
release states one."""


def product(lhs: Array, rhs: Array) -> Array:
    """`lhs @ rhs`. Integers by BLAS where every sum is below 2**53, else by numpy's loops, which wrap."""
    if lhs.dtype != np.int64:
        result: Array = lhs @ rhs
        return result
    largest = [max(int(abs(array.max(initial=0))), int(abs(array.min(initial=0)))) for array in (lhs, rhs)]
    if largest[0] * largest[1] * lhs.shape[-1] < 2**53:
        return np.asarray((lhs.astype(np.float64) @ rhs.astype(np.float64)).astype(np.int64))
    found: Array = lhs @ rhs
    return found


def wrapped(array: Array, element: ElementType) -> Array:
    """Integers as they are left in this type, in two's complement; floats as they are."""
    return array if element.is_float else array.astype(element.numpy_name).astype(array.dtype)
