"""y[n,m] = x[m,n]"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import ClassVar

from dispatchflow.operations.api import Array, Library, Operand, Operation, Signature, TensorType, signature, snippets


class Transpose(Operation):
    """The transposition of a matrix: a copy without arithmetic. Its speed is measured in bytes per second."""

    name: ClassVar[str] = "transpose"
    dims: ClassVar[tuple[str, ...]] = ("m", "n")
    signatures: ClassVar[Mapping[str, Signature]] = {
        word: signature(f"{word}->{word}") for word in ("f32", "f16", "f64", "i8", "i32")
    }

    def illegal(self, backend: str) -> str | None:
        return "transposing a single row or column moves nothing" if 1 in self.sizes else None

    @property
    def bitwise(self) -> bool:
        return True

    @property
    def parallel(self) -> tuple[str, ...]:
        return self.dims

    def operands(self) -> tuple[Operand, ...]:
        return (Operand(TensorType(self.sizes, self.signature.operands[0])),)

    def result(self) -> TensorType:
        return TensorType(self.sizes[::-1], self.signature.result)

    def made(self, recipe: str) -> list[Array] | None:
        """Return the inputs of the recipe `exact` for floating-point types; None for other recipes or types.

        The numbers use all bits of the type's significand. They are normal numbers. The binary exponents of f64 are
        in -300 … 300."""
        element = self.signature.operands[0]
        if recipe != "exact" or not element.is_float:
            return None
        from dispatchflow.operations._random import full, stream
        from dispatchflow.operations._range import exponents, powers

        count = prod(self.sizes)
        numbers = full(stream(0, 0, count), element.digits) * powers((count,), (0,), exponents(element))
        return [numbers.reshape(self.sizes)]

    def body(self, attribute: str) -> str:
        x, y = self.operands()[0].type, self.result()
        op = f"linalg.transpose ins(%arg0 : {x.mlir}) outs(%empty : {y.mlir}) permutation = [1, 0]"
        return snippets.empty("empty", y) + f"    %all = {op} loc(unknown)\n" + snippets.returned("all", y)

    def reference(self, operands: Sequence[Array]) -> Array:
        return operands[0].T

    def library_call(self, library: Library) -> str:
        return "x0.T"

    def flops(self) -> int:
        return 0
