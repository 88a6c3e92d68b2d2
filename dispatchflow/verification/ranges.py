"""Make uniform random integers in a range, as inputs of a user's module."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dispatchflow.cases import ranges
from dispatchflow.errors import ToolError
from dispatchflow.mlir.types import ElementType
from dispatchflow.verification import inputs

if TYPE_CHECKING:
    from dispatchflow.operations.api import Array


def made(value: str, size: int, element: ElementType, index: int) -> Array:
    """Return `size` random integers in the range `value`, such as `0..9`, for argument `index`.

    Raises:
        ToolError: the element type cannot represent all integers of the range.
    """
    try:
        low, high = ranges.check(value, element.mlir)
    except ValueError as error:
        raise ToolError(f"input {index}: {error}") from error
    raw, count = inputs.stream(index, 1, size), high - low + 1
    if count <= 1 << 32:
        above = inputs.below(raw, count).astype(np.uint64)
    else:
        above = raw % np.uint64(count) if count < 1 << 64 else raw
    numbers = (above + np.uint64(low % (1 << 64))).view(np.int64)  # wraps around for a negative `low`
    return numbers.astype(inputs.dtype_of(element))
