"""One result of calling a compiled function, as an array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dispatchflow.operations.api import Array


@dataclass(frozen=True, slots=True)
class CallResult:
    type: str
    """The type with the sizes of this result, such as `4x8xf32`.

    A tensor of rank 0 has a type such as `tensor<f32>`. A bare number (not a tensor) has a type such as `f32`."""
    array: Array | None
    """The elements in the shape of the type, or a flat array of bytes if the element type is unknown.

    It is None if the result is a bare number (not a tensor) of a type that cannot be read, such as bf16."""
    is_bytes: bool = False
