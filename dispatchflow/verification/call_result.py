"""A result of a call, as an array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dispatchflow.operations.api import Array


@dataclass(frozen=True, slots=True)
class CallResult:
    """One result of a call."""

    type: str
    """The type with its sizes in this call: `4x8xf32`, `tensor<f32>` of rank 0, `f32` for a bare number."""
    array: Array | None
    """Its elements in the shape of the type; None for a number that cannot be read.

    If the type is unknown, they are bytes in a flat array."""
    is_bytes: bool = False
    """Whether the array has the bytes of elements of an unknown type."""
