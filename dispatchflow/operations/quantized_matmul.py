"""C[m,n] = Σ_k (A[m,k] - input_zp) · (B[k,n] - weight_zp)"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from dispatchflow.operations._contraction import ZERO_POINTS, Contraction, zero_points
from dispatchflow.operations.api import Array, Loop, Option, Signature, signature


class QuantizedMatmul(Contraction):
    """A product of matrices of 8-bit integers with zero points, without the scaling that usually follows.

    IREE 3.13 separates zero points that are not 0 from the product: it sums rows or columns, and computes correction
    terms from these sums. The sums and the correction terms are then separate dispatches."""

    name: ClassVar[str] = "quantized_matmul"
    dims: ClassVar[tuple[str, ...]] = ("m", "n", "k")
    by_dims: ClassVar[bool] = False
    lhs, rhs, out = "mk", "kn", "mn"
    layouts: ClassVar[tuple[str, ...]] = ("tt",)
    signatures: ClassVar[Mapping[str, Signature]] = {"i8": signature("i8,i8->i32")}
    options: ClassVar[Mapping[str, Option]] = {**ZERO_POINTS, **Contraction.options}
    library_options: ClassVar[tuple[str, ...]] = tuple(options)

    @property
    def loops(self) -> tuple[Loop, ...]:
        """An empty tuple, because no tuning can tile the op."""
        return ()

    def reference(self, operands: Sequence[Array]) -> Array:
        centered = [operand - point for operand, point in zip(operands, zero_points(self), strict=False)]
        return Contraction.reference(self, [*centered, *operands[2:]])

    def flops(self) -> int:
        """Each term counts as two flops. The subtraction of zero points does not count."""
        return Contraction.flops(self)
