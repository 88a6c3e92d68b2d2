"""C[m,n] = Σ_s P[s,m,n] with P[s,m,n] = Σ_k A[m, s·K/S + k] · B[s·K/S + k, n]"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from dispatchflow.operations._contraction import Contraction
from dispatchflow.operations.api import Loop, Option, TensorType, snippets


class MatmulSplitk(Contraction):
    """A matrix product whose sum over `k` is split into parts in the module itself.

    The option `slices` is the number of parts. One dispatch computes a product for each part, and a second dispatch
    adds these products. To let the compiler split the sum instead, use the operation `matmul` with the tuning
    `split_k`."""

    name: ClassVar[str] = "matmul_splitk"
    dims: ClassVar[tuple[str, ...]] = ("m", "n", "k")
    lhs, rhs, out = "mk", "kn", "mn"
    layouts: ClassVar[tuple[str, ...]] = ("tt", "tn", "nt", "nn")
    options: ClassVar[Mapping[str, Option]] = {
        "slices": Option(range(2, 1025), "number of separately summed parts of `k`; `k` must be a multiple of it")
    }
    by_dims: ClassVar[bool] = False
    library_options: ClassVar[tuple[str, ...]] = ("slices",)

    @property
    def dispatches(self) -> int | None:
        """Two dispatches. If there is only one, the compiler has fused the products with the sum."""
        return 2

    @property
    def loops(self) -> tuple[Loop, ...]:
        return ()

    def illegal(self, backend: str) -> str | None:
        slices, k = self.option("slices"), self.sizes[2]
        if k % slices:
            return f"k = {k} is not a multiple of {slices} slices"
        return "a slice of one term is not a product" if k == slices else super().illegal(backend)

    def body(self, attribute: str) -> str:
        slices, total = self.option("slices"), self._tensor(self.out, 2)
        parts = TensorType((slices, *total.shape), total.element)
        text, inputs, maps = "", {}, []
        for i, (dims, operand) in enumerate(zip(self._stored(), self.operands(), strict=True)):
            axis, (sliced, kind) = dims.index("k"), self._sliced(dims, operand.type)
            groups = "[[0], [1, 2]]" if axis else "[[0, 1], [2]]"
            text += (
                f"    %sliced{i} = tensor.expand_shape %arg{i} {groups} output_shape {list(kind.shape)} : "
                f"{operand.type.mlir} into {kind.mlir} loc(unknown)\n"
            )
            inputs[f"sliced{i}"] = kind
            maps.append(sliced)
        element = total.element
        lines = snippets.multiplied(dict(zip("ab", inputs.values(), strict=True)), element)
        text += snippets.filled(parts, element.zero, "parts_")
        text += snippets.generic(
            *("parts", snippets.affine("smnk", *maps, "smn"), "pppr", inputs, ("parts_init", parts)),
            *(("a", "b", "so_far"), lines),
        )
        text += snippets.filled(total, element.zero)
        add = [f"%next = {snippets.arith('add', element)} %so_far, %part : {element.mlir}", "next"]
        text += snippets.generic(
            *("sum", snippets.affine("smn", "smn", "mn"), "rpp", {"parts": parts}, ("init", total)),
            *(("part", "so_far"), add),
        )
        return text + self.finished(total)

    def _sliced(self, dims: str, operand: TensorType) -> tuple[str, TensorType]:
        """Return an operand's dims and type after `k` is split into two axes: slice, and index within a slice."""
        axis, slices = dims.index("k"), self.option("slices")
        shape = (*operand.shape[:axis], slices, operand.shape[axis] // slices, *operand.shape[axis + 1 :])
        return dims.replace("k", "sk"), TensorType(shape, operand.element)
