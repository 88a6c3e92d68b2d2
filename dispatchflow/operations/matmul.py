"""C[m,n] = Σ_k A[m,k] · B[k,n]"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dispatchflow.operations._base import Operand, Operation
from dispatchflow.types import ElementType, Layout, Signature, TensorType, signature

if TYPE_CHECKING:
    from dispatchflow.operations._base import Array

_MAPS = {
    Layout.ROW: ("affine_map<(m, n, k) -> (m, k)>", "affine_map<(m, n, k) -> (k, n)>"),
    Layout.COLUMN: ("affine_map<(m, n, k) -> (k, m)>", "affine_map<(m, n, k) -> (n, k)>"),
}


@dataclass(frozen=True, slots=True)
class Matmul(Operation):
    """Matrix product. Column-major operands are stored transposed: `tensor<KxM>`, `tensor<NxK>`."""

    m: int
    n: int
    k: int
    types: Signature
    lhs: Layout = Layout.ROW
    rhs: Layout = Layout.ROW

    name: ClassVar[str] = "matmul"
    dims: ClassVar[tuple[str, ...]] = ("m", "n", "k")
    signatures: ClassVar[Mapping[str, Signature]] = {
        "f32": signature("f32,f32->f32"),
        "f16": signature("f16,f16->f16"),
        "f16_f32": signature("f16,f16->f32"),
        "f16_f32_f16": signature("f16,f16->f32->f16"),
        "bf16": signature("bf16,bf16->f32"),
        "bf16_f32_bf16": signature("bf16,bf16->f32->bf16"),
        "i8": signature("i8,i8->i32"),
        "f64": signature("f64,f64->f64"),
    }
    layouts: ClassVar[tuple[str, ...]] = ("tt", "tn", "nt", "nn")

    @classmethod
    def make(cls, sizes: Mapping[str, int], signature: Signature, layout: str) -> Matmul:
        return cls(sizes["m"], sizes["n"], sizes["k"], signature, Layout(layout[0]), Layout(layout[1]))

    @property
    def sizes(self) -> tuple[int, ...]:
        return (self.m, self.n, self.k)

    @property
    def signature(self) -> Signature:
        return self.types

    @property
    def layout(self) -> str:
        return self.lhs.value + self.rhs.value

    @property
    def label(self) -> str:
        lhs, rhs = self.types.operands
        types = f"{lhs.mlir}{self.lhs.value}_{rhs.mlir}{self.rhs.value}_{self.types.result.mlir}t"
        accumulator = self.types.accumulator
        suffix = "" if accumulator is self.types.result else f"_acc_{accumulator.mlir}"
        return f"{self.m}x{self.n}x{self.k}_{types}{suffix}"

    def operands(self) -> tuple[Operand, ...]:
        lhs = (self.m, self.k) if self.lhs is Layout.ROW else (self.k, self.m)
        rhs = (self.k, self.n) if self.rhs is Layout.ROW else (self.n, self.k)
        return (
            Operand(TensorType(lhs, self.types.operands[0]), reduction_axis=lhs.index(self.k, self.lhs is Layout.ROW)),
            Operand(TensorType(rhs, self.types.operands[1])),
        )

    def result(self) -> TensorType:
        return TensorType((self.m, self.n), self.types.result)

    def body(self, attribute: str) -> str:
        a, b = (operand.type.mlir for operand in self.operands())
        accumulator = self.types.accumulator
        c = TensorType((self.m, self.n), accumulator).mlir
        maps = ""
        if self.layout != "tt":
            lhs, rhs = _MAPS[self.lhs][0], _MAPS[self.rhs][1]
            maps = f"indexing_maps = [{lhs}, {rhs}, affine_map<(m, n, k) -> (m, n)>] "
        text = f"""\
    %zero = arith.constant {accumulator.zero} : {accumulator.mlir} loc(unknown)
    %empty = tensor.empty() : {c} loc(unknown)
    %init = linalg.fill ins(%zero : {accumulator.mlir}) outs(%empty : {c}) -> {c} loc(unknown)
    %sum = linalg.matmul {maps}{attribute}ins(%arg0, %arg1 : {a}, {b}) outs(%init : {c}) -> {c} loc(unknown)
"""
        if accumulator is self.types.result:
            return text + f"    return %sum : {c} loc(unknown)\n"
        return text + _truncation(c, accumulator, self.result())

    def reference(self, operands: Sequence[Array]) -> Array:
        lhs, rhs = operands
        product: Array = (lhs if self.lhs is Layout.ROW else lhs.T) @ (rhs if self.rhs is Layout.ROW else rhs.T)
        return product

    @property
    def terms(self) -> int:
        return self.k

    def flops(self) -> int:
        return 2 * self.m * self.n * self.k


def _truncation(c: str, accumulator: ElementType, result: TensorType) -> str:
    identity = "affine_map<(m, n) -> (m, n)>"
    wide, narrow, out = accumulator.mlir, result.element.mlir, result.mlir
    return f"""\
    %slot = tensor.empty() : {out} loc(unknown)
    %out = linalg.generic {{indexing_maps = [{identity}, {identity}], iterator_types = ["parallel", "parallel"]}} \
ins(%sum : {c}) outs(%slot : {out}) {{
    ^bb0(%wide: {wide} loc(unknown), %unused: {narrow} loc(unknown)):
      %narrow = arith.truncf %wide : {wide} to {narrow} loc(unknown)
      linalg.yield %narrow : {narrow} loc(unknown)
    }} -> {out} loc(unknown)
    return %out : {out} loc(unknown)
"""
