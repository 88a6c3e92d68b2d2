"""C[m,n] = Σ_g Σ_i (A[m,g,i] · 2^s[m,g]) · (B[n,g,i] · 2^t[n,g]): groups of 32 elements along k share a scale"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import ClassVar

from dispatchflow.operations.api import (
    Array,
    ElementType,
    Loop,
    Operand,
    Operation,
    Signature,
    TensorType,
    signature,
    snippets,
)

BLOCK = 32
"""The number of elements that share a scale (OCP Microscaling Formats Specification 1.0, section 5.2)."""


class ScaledMatmul(Operation):
    """Product of two matrices in the MX formats: each block of 32 elements along `k` has a scale.

    Elements have 8 or 4 bits, and scales are powers of two. The operands are A with the shape `m × k/32 × 32`, B with
    the shape `n × k/32 × 32`, the scales of A (`m × k/32`) and the scales of B (`n × k/32`)."""

    name: ClassVar[str] = "scaled_matmul"
    dims: ClassVar[tuple[str, ...]] = ("m", "n", "k")
    by_dims: ClassVar[bool] = False
    signatures: ClassVar[Mapping[str, Signature]] = {
        "f8E4M3FN": signature("f8E4M3FN,f8E4M3FN->f32"),
        "f8E5M2": signature("f8E5M2,f8E5M2->f32"),
        "f4E2M1FN": signature("f4E2M1FN,f4E2M1FN->f32"),
    }
    factors: ClassVar[int] = 4
    multiplies: ClassVar[bool] = True

    def illegal(self, backend: str) -> str | None:
        k = self.sizes[2]
        return f"k = {k} is not a multiple of a block's {BLOCK} elements" if k % BLOCK else None

    @property
    def parallel(self) -> tuple[str, ...]:
        return ("m", "n")

    def operands(self) -> tuple[Operand, ...]:
        m, n, k = self.sizes
        groups = k // BLOCK
        a, b = self.signature.operands
        scale, most = ElementType.F8E8M0FNU, 6.0 if a.bits == 4 else 1.0  # so that f4 gets all of its numbers
        return (
            Operand(TensorType((m, groups, BLOCK), a), summed=(1, 2), shared=2, lines=(0,), low=-most, high=most),
            Operand(TensorType((n, groups, BLOCK), b), shared=2, crossed=(1, 2), lines=(0,), low=-most, high=most),
            Operand(TensorType((m, groups), scale), low=0.25, high=4.0),
            Operand(TensorType((n, groups), scale), low=0.25, high=4.0),
        )

    def result(self) -> TensorType:
        return TensorType(self.sizes[:2], self.signature.result)

    @property
    def loops(self) -> tuple[Loop, ...]:
        m, n, k = self.sizes
        return Loop("m", m), Loop("n", n), Loop("k", k // BLOCK, True), Loop("block", BLOCK, True)

    def body(self, attribute: str) -> str:
        operands, result, text = [operand.type for operand in self.operands()], self.result(), ""
        inputs = {}
        for i, tensor in enumerate(operands):
            name = f"arg{i}"
            if tensor.passed != tensor:
                name = f"elements{i}"
                types = f"{tensor.passed.mlir} -> {tensor.mlir}"
                text += f"    %{name} = iree_tensor_ext.bitcast %arg{i} : {types} loc(unknown)\n"
            inputs[name] = tensor
        f, scale = result.element.mlir, ElementType.F8E8M0FNU.mlir
        wide = [
            f"%{value}_wide = arith.scaling_extf %{value}, %{value}_scale : {tensor.element.mlir}, {scale} to {f}"
            for value, tensor in zip("ab", operands, strict=False)
        ]
        lines = [
            *wide,
            f"%term = arith.mulf %a_wide, %b_wide : {f}",
            f"%next = arith.addf %so_far, %term : {f}",
            "next",
        ]
        maps = snippets.affine("mnki", "mki", "nki", "mk", "nk", "mn")
        arguments = ("a", "b", "a_scale", "b_scale", "so_far")
        text += snippets.filled(result, result.element.zero)
        text += snippets.generic("sum", maps, "pprr", inputs, ("init", result), arguments, lines, attribute)
        return text + snippets.returned("sum", result)

    def reference(self, operands: Sequence[Array]) -> Array:
        a, b, a_scale, b_scale = operands
        left, right = (x * scale[..., None] for x, scale in ((a, a_scale), (b, b_scale)))
        found: Array = left.reshape(len(a), -1) @ right.reshape(len(b), -1).T
        return found

    def flops(self) -> int:
        """Each pair of multiplied elements counts as two flops. Multiplications by scales do not count."""
        return 2 * prod(self.sizes)
