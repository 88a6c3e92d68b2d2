"""What every operation answers. A new operation is one new file beside this one; docs/adding.md shows how."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from dispatchflow.types import Signature, TensorType

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


class Unsupported(Exception):
    """This combination cannot be expressed; the message is the skip's reason."""


class Operand(msgspec.Struct, frozen=True):
    """One input tensor. `reduction_axis` is the axis summed over, where exact inputs are thinned out
    on one operand so that every partial sum stays exact (see `inputs.exact`); None for the others."""

    type: TensorType
    reduction_axis: int | None = None


@dataclass(frozen=True)
class Operation(ABC):
    """What is computed. Frozen: identity is the fields; the label is for people."""

    name: ClassVar[str]
    """The spec's word and the row's `operation`; equal to the file's name."""
    dims: ClassVar[tuple[str, ...]]
    """The names of the dimensions, in the order of the label."""
    signatures: ClassVar[Mapping[str, Signature]]
    """Short word → element types; the first is the default. Both the word and the full spelling are accepted."""
    layouts: ClassVar[tuple[str, ...]]
    """One letter an operand (`t` row-major, `n` column-major); the first is the default."""

    @classmethod
    @abstractmethod
    def make(cls, sizes: Mapping[str, int], signature: Signature, layout: str) -> Operation:
        """The operation with these sizes, one for each of `dims`.

        Raises:
            Unsupported: with the reason, when these do not go together.
        """

    @property
    @abstractmethod
    def sizes(self) -> tuple[int, ...]:
        """The sizes of `dims`, in their order."""

    @property
    @abstractmethod
    def signature(self) -> Signature: ...

    @property
    @abstractmethod
    def layout(self) -> str: ...

    @property
    @abstractmethod
    def label(self) -> str:
        """Injective over the fields: `512x512x512_f32t_f32t_f32t`."""

    @cached_property
    def shape_name(self) -> str:
        """What cases that compute the same thing share: operation, dims, types, layouts."""
        return f"{self.name}_{self.label}"

    @abstractmethod
    def operands(self) -> tuple[Operand, ...]: ...

    @abstractmethod
    def result(self) -> TensorType: ...

    @abstractmethod
    def body(self, attribute: str) -> str:
        """MLIR of the function's body, up to and with `return`; operands are `%arg0`, `%arg1`, …; every op
        ends in `loc(unknown)`; `attribute` stands on the op that a tuning configures (empty, or `{…} `)."""

    @abstractmethod
    def reference(self, operands: Sequence[Array]) -> Array:
        """The expected result in float64, from operands in float64 as they lie in memory (shapes of
        `operands()`). Exact when every partial sum is an integer below 2**53."""

    def magnitude(self, operands: Sequence[Array]) -> Array:
        """Σ|terms| of every result element in float64: the scale of its rounding error (Higham, Accuracy and
        Stability of Numerical Algorithms, 3.13). Right as it stands for multilinear operations."""
        return self.reference([abs(operand) for operand in operands])

    @property
    @abstractmethod
    def terms(self) -> int:
        """Terms summed into one result element (K of a matmul)."""

    @abstractmethod
    def flops(self) -> int:
        """Arithmetic operations of one call; one multiply-add counts as two."""

    def traffic_bytes(self) -> int:
        """Bytes of one call when every operand is read once and every result written once."""
        return sum(operand.type.nbytes for operand in self.operands()) + self.result().nbytes
