"""Expected results, independent of IREE: numpy in float64, rounded once; integers in int64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dispatchflow.errors import ToolError, raised
from dispatchflow.inputs import dtype_of
from dispatchflow.operations import Operation
from dispatchflow.types import ElementType

if TYPE_CHECKING:
    from dispatchflow.operations._base import Array


SMALLEST_NORMAL = {
    ElementType.F16: 2.0**-14,
    ElementType.F64: 2.0**-1022,
    ElementType.F8E4M3FN: 2.0**-6,
    ElementType.F8E5M2: 2.0**-14,
}


def expected(operation: Operation, operands: Sequence[Array]) -> Array:
    """The result in its element type. Bit-exact where every partial sum is an integer below 2**53; integer results
    wrap as two's complement does."""
    return _asked(operation, "reference", _wide(operands)).astype(dtype_of(operation.types.result))


def bounds(operation: Operation, operands: Sequence[Array]) -> tuple[Array, Array]:
    """(reference, tolerance) of a floating-point result, both float64: |got - reference| ≤ tolerance.

    tolerance = error + u_out · (|reference| + smallest normal): the operation's own bound, by default
    min(K, 8·√K) · u_acc · Σ|terms|; the final rounding; results that underflow. u = 2**-digits.
    """
    wide, result = _wide(operands), operation.types.result
    value = _asked(operation, "reference", wide)
    rounding = result.unit * (abs(value) + SMALLEST_NORMAL.get(result, 2.0**-126))
    return value, _asked(operation, "error", wide) + rounding


def _asked(operation: Operation, method: str, operands: Sequence[Array]) -> Array:
    """What the operation's own method makes of the operands; what is wrong with it, one case's failure.

    Raises:
        ToolError: it raises, or gives another shape than the result's.
    """
    whose = f"the {method} of {operation.name}"
    try:
        found = np.asarray(getattr(operation, method)(operands))
    except (MemoryError, OSError):  # not its fault
        raise
    except (Exception, SystemExit) as error:
        raise ToolError(f"{whose} failed: {raised(error)}") from error
    if found.shape != operation.result().shape:
        raise ToolError(f"{whose} has the shape {found.shape}; the result's is {operation.result().shape}")
    return found


def _wide(operands: Sequence[Array]) -> list[Array]:
    return [
        operand.astype(np.int64 if np.issubdtype(operand.dtype, np.integer) else np.float64) for operand in operands
    ]
