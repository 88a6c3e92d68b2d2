"""Expected results, independent of IREE: numpy in float64, rounded once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dispatchflow.inputs import dtype_of
from dispatchflow.operations import Operation
from dispatchflow.types import ElementType

if TYPE_CHECKING:
    from dispatchflow.operations._base import Array


_SMALLEST_NORMAL = {ElementType.F16: 2.0**-14, ElementType.F64: 2.0**-1022}


def expected(operation: Operation, operands: Sequence[Array]) -> Array:
    """The result in its element type. Bit-exact where every partial sum is an integer below 2**53; integer results
    wrap as two's complement does."""
    wide = operation.reference([operand.astype(np.float64) for operand in operands])
    return _rounded(operation, wide)


def bounds(operation: Operation, operands: Sequence[Array]) -> tuple[Array, Array]:
    """(reference, tolerance) of a floating-point result, both float64: |got - reference| ≤ tolerance.

    tolerance = min(K, 8·√K) · u_acc · Σ|terms| + u_out · (|reference| + smallest normal). The first term bounds the
    accumulation (Higham 3.13, with the probabilistic constant of Higham & Mary 2019, λ = 8), the second the final
    rounding, the third results that underflow. u = 2**-digits.
    """
    wide = [operand.astype(np.float64) for operand in operands]
    value, magnitude = operation.reference(wide), operation.magnitude(wide)
    accumulator, result = operation.signature.accumulator, operation.signature.result
    growth = min(operation.terms, 8.0 * operation.terms**0.5)
    rounding = 2.0**-result.digits * (abs(value) + _SMALLEST_NORMAL.get(result, 2.0**-126))
    return value, growth * 2.0**-accumulator.digits * magnitude + rounding


def _rounded(operation: Operation, wide: Array) -> Array:
    result = operation.signature.result
    if result.is_float:
        return wide.astype(dtype_of(result))
    return wide.astype(np.int64).astype(dtype_of(result))
