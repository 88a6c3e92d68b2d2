"""Compute expected results with numpy instead of IREE.

Floating-point results are computed in float64 and then rounded once. Integer results are computed in int64."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dispatchflow.errors import ToolError, raised
from dispatchflow.mlir.types import ElementType
from dispatchflow.operations import Operation
from dispatchflow.verification.inputs import dtype_of

if TYPE_CHECKING:
    from dispatchflow.operations.api import Array


SMALLEST_NORMAL = {
    ElementType.F16: 2.0**-14,
    ElementType.F64: 2.0**-1022,
    ElementType.F8E4M3FN: 2.0**-6,
    ElementType.F8E5M2: 2.0**-14,
}
"""The smallest normal number of each type. Types that are not listed use that of f32, 2**-126."""


def expected(operation: Operation, operands: Sequence[Array]) -> Array:
    """Return the expected result, converted to the result's element type.

    Before the conversion, the result is exact if every partial sum is an integer below 2**53. The conversion to an
    integer type wraps in two's complement: 300 becomes 44 in i8."""
    return unrounded(operation, operands).astype(dtype_of(operation.types.result))


def wanted(operation: Operation, operands: Sequence[Array], recipe: str) -> Iterator[tuple[str, Array]]:
    """Yield (name, array) for each array with which the results of a kernel are compared.

    `recipe` names the way in which the operands were made (docs/verification.md). If bits are compared, the only
    name is the recipe's name, such as `exact`. Otherwise there are two names, such as `random_reference` and
    `random_tolerance` (see `bounds`)."""
    if operation.compares_bits(recipe):
        yield recipe, expected(operation, operands)
    else:
        value, tolerance = bounds(operation, operands, recipe)
        yield f"{recipe}_reference", value
        yield f"{recipe}_tolerance", tolerance


def unrounded(operation: Operation, operands: Sequence[Array]) -> Array:
    """Return the expected result in float64 or int64, before it is rounded to the result's type."""
    return _asked(operation, "reference", widened(operands))


def bounds(operation: Operation, operands: Sequence[Array], recipe: str = "random") -> tuple[Array, Array]:
    """Return (reference, tolerance) in float64: a result passes if |result - reference| <= tolerance.

    The result's type must be floating-point. `recipe` is the method that produced the operands, such as `random`."""
    wide, result = widened(operands), operation.types.result
    value = _asked(operation, "reference", wide)
    error = _asked(operation, "error_on", wide, recipe)
    with np.errstate(over="ignore"):
        rounded = value.astype(dtype_of(result)).astype(np.float64)
    value = np.where(np.isinf(rounded), rounded, value)
    if recipe == "random":
        return value, error + result.unit * (abs(value) + SMALLEST_NORMAL.get(result, 2.0**-126))
    dtype = dtype_of(result)
    # `error` may be much smaller than the last digit: a term for the final rounding would hide small errors. If both
    # ends are one number, only it passes, or also its neighbor if the reference is exactly halfway between them.
    with np.errstate(over="ignore", invalid="ignore"):
        ends = ((value + side * error).astype(dtype).astype(np.float64) for side in (-1, 1))
        return value, np.nan_to_num(np.maximum(*(abs(end - value) for end in ends)))


def _asked(operation: Operation, method: str, operands: Sequence[Array], *recipe: str) -> Array:
    """Call the operation's method `method`, and return the result.

    Raises:
        ToolError: the method raises an exception other than MemoryError or OSError, or the result has a wrong shape.
    """
    whose = f"the {method.removesuffix('_on')} of {operation.name}"
    try:
        with np.errstate(over="ignore"):  # infinity is a valid result
            found = np.asarray(getattr(operation, method)(*recipe, operands))
    except (MemoryError, OSError):  # not the operation's fault
        raise
    except (Exception, SystemExit) as error:
        raise ToolError(f"{whose} failed: {raised(error)}") from error
    if found.shape != operation.result().shape:
        raise ToolError(f"{whose} has the shape {found.shape}; the result's is {operation.result().shape}")
    return found


def widened(operands: Sequence[Array]) -> list[Array]:
    """Return the operands converted to float64 or int64, for `Operation.reference`."""
    return [operand.astype(np.int64 if _is_integer(operand.dtype) else np.float64) for operand in operands]


def _is_integer(dtype: np.dtype[Any]) -> bool:
    return np.issubdtype(dtype, np.integer) or dtype.name == "int4"  # int4 is not a numpy type
