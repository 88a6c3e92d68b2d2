"""What every operation answers. A new operation is one new file beside this one; docs/adding.md shows how."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from dispatchflow.program import Program
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
class Operation(Program):
    """What is computed. Frozen: identity is the fields; the label is injective over them. `name` equals the file's."""

    recipes: ClassVar[tuple[str, ...]] = ("exact", "random")
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
    def signature(self) -> Signature: ...

    @property
    def element_types(self) -> str:
        return self.signature.spelling

    @property
    @abstractmethod
    def layout(self) -> str: ...

    @property
    @abstractmethod
    def label(self) -> str:
        """Injective over the fields: `512x512x512_f32t_f32t_f32t`."""

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
