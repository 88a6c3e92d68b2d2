"""A result of a call of a compiled function, as an array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dispatchflow.operations.api import Array


@dataclass(frozen=True, slots=True)
class CallResult:
    """One result of a call."""

    type: str
    """The type with its sizes in this call: `4x8xf32`, `tensor<f32>` (rank 0), `f32` (a bare number)."""
    array: Array | None
    """The elements in the shape of the type; None for a number that cannot be read.

    If the element type is unknown, this is a flat array of bytes."""
    is_bytes: bool = False
    """Whether `array` has bytes, because the element type is unknown."""
