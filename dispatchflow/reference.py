"""Expected results, independent of IREE: numpy in float64, rounded once; integers in int64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dispatchflow.inputs import dtype_of
from dispatchflow.operations import Operation
from dispatchflow.types import ElementType

if TYPE_CHECKING:
    from dispatchflow.operations._base import Array


_SMALLEST_NORMAL = {
    ElementType.F16: 2.0**-14,
    ElementType.F64: 2.0**-1022,
    ElementType.F8E4M3FN: 2.0**-6,
    ElementType.F8E5M2: 2.0**-14,
}


def expected(operation: Operation, operands: Sequence[Array]) -> Array:
    """The result in its element type. Bit-exact where every partial sum is an integer below 2**53; integer results
    wrap as two's complement does."""
    return np.asarray(operation.reference(_wide(operands))).astype(dtype_of(operation.types.result))


def bounds(operation: Operation, operands: Sequence[Array]) -> tuple[Array, Array]:
    """(reference, tolerance) of a floating-point result, both float64: |got - reference| ≤ tolerance.

    tolerance = error + u_out · (|reference| + smallest normal): the operation's own bound, by default
    min(K, 8·√K) · u_acc · Σ|terms|; the final rounding; results that underflow. u = 2**-digits.
    """
    wide, result = _wide(operands), operation.types.result
    value = np.asarray(operation.reference(wide))
    rounding = result.unit * (abs(value) + _SMALLEST_NORMAL.get(result, 2.0**-126))
    return value, np.asarray(operation.error(wide) + rounding)


def _wide(operands: Sequence[Array]) -> list[Array]:
    return [
        operand.astype(np.int64 if np.issubdtype(operand.dtype, np.integer) else np.float64) for operand in operands
    ]
