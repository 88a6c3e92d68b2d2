"""y[m,n] = exp(x[m,n] - max_n x[m,n]) / Σ_n exp(x[m,n] - max_n x[m,n])"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from dispatchflow.operations import _mlir
from dispatchflow.operations._base import Operand, Operation, growth
from dispatchflow.types import Signature, TensorType, signature

if TYPE_CHECKING:
    from dispatchflow.operations._base import Array
    from dispatchflow.providers import Library


class Softmax(Operation):
    """Of each row."""

    name: ClassVar[str] = "softmax"
    dims: ClassVar[tuple[str, ...]] = ("m", "n")
    signatures: ClassVar[Mapping[str, Signature]] = {"f32": signature("f32->f32"), "f16": signature("f16->f16")}

    @property
    def recipes(self) -> tuple[str, ...]:
        return ("random",)

    def operands(self) -> tuple[Operand, ...]:
        return (Operand(TensorType(self.sizes, self.signature.operands[0]), low=-4.0, high=4.0),)

    def result(self) -> TensorType:
        return TensorType(self.sizes, self.signature.result)

    def body(self, attribute: str) -> str:
        t = self.result().mlir
        op = f"linalg.softmax dimension(1) ins(%arg0 : {t}) outs(%empty : {t}) -> {t}"
        return (
            _mlir.empty("empty", self.result())
            + f"    %all = {op} loc(unknown)\n"
            + _mlir.returned("all", self.result())
        )

    def reference(self, operands: Sequence[Array]) -> Array:
        import numpy as np

        powers = np.exp(operands[0] - operands[0].max(axis=1, keepdims=True))
        found: Array = powers / powers.sum(axis=1, keepdims=True)
        return found

    def library_call(self, library: Library) -> str:
        """Of numpy, which has no softmax, as it is written with whole arrays."""
        if library.name == "torch":
            return "F.softmax(x0, 1)"
        return "(e := np.exp(x0 - x0.max(axis=1, keepdims=True))) / e.sum(axis=1, keepdims=True)"

    def error(self, operands: Sequence[Array]) -> Array:
        """y · (ρ + Σ y·ρ + (growth + 1) · u): an exponential's own error ρ = (2·|x - max| + ULPS) · u, as it is and in
        the sum, whose rounding is relative because all terms are positive; then the division."""
        from dispatchflow.operations._numeric import ULPS

        (x,), y = operands, self.reference(operands)
        own = 2 * (x.max(axis=1, keepdims=True) - x) + ULPS
        shared = (y * own).sum(axis=1, keepdims=True) + growth(self.sizes[1]) + 1
        bound: Array = y * (own + shared) * self.signature.accumulator.unit
        return bound

    def flops(self) -> int:
        """Five for each element: largest, difference, exponential, sum, quotient."""
        return 5 * self.sizes[0] * self.sizes[1]
