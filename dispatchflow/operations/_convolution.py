"""What convolutions share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from dispatchflow.operations import _mlir
from dispatchflow.operations._base import Operand
from dispatchflow.operations._contraction import FLOATS
from dispatchflow.operations._epilogue import Summed
from dispatchflow.operations._window import Window
from dispatchflow.types import Signature, TensorType, signature


class Convolution(Summed, Window):
    """The layout is the image's letters and the weights', as in the names of linalg's ops; the window does not turn."""

    ops: ClassVar[Mapping[str, str]]
    """Layout → the named op."""
    outs: ClassVar[str]
    """The dim of the result's channels."""
    summed: ClassVar[str]
    """The weights' letters that are summed over."""
    signatures: ClassVar[Mapping[str, Signature]] = {**FLOATS, "i8": signature("i8,i8->i32")}

    @property
    def channel_axis(self) -> int:
        return self.layout.index("c")

    @property
    def dispatches(self) -> int | None:
        """The padding is copied by another one (IREE 3.13, on all backends)."""
        fused = super().dispatches
        return fused and fused + bool(self.option("padding"))

    def _weights(self) -> Operand:
        letters = self.layout.split("_")[1]
        # In the weights' part of a layout h and w are the window's.
        sizes = {letter: self.size({"h": "kh", "w": "kw"}.get(letter, letter)) for letter in letters}
        summed = tuple(axis for axis, letter in enumerate(letters) if letter in self.summed)
        return Operand(TensorType(tuple(sizes.values()), self.signature.operands[1]), summed)

    def operands(self) -> tuple[Operand, ...]:
        image = self.image(self.size("h"), self.size("w"), self.size("c"), 0)
        return (Operand(image), self._weights(), *self.parameters())

    def result(self) -> TensorType:
        return self.image(*self.outputs, self.size(self.outs), -1)

    def body(self, attribute: str) -> str:
        image, weights = (operand.type for operand in self.operands()[:2])
        accumulator = self.image(*self.outputs, self.size(self.outs), -2)
        text, name, image = self.padded(image, image.element.zero)
        text += _mlir.filled(accumulator, accumulator.element.zero)
        attributes = ", ".join([self.strides, *filter(None, [attribute.strip(" {}")])])
        c, ins = accumulator.mlir, f"ins(%{name}, %arg1 : {image.mlir}, {weights.mlir})"
        text += f"""\
    %sum = linalg.{self.ops[self.layout]} {{{attributes}}} {ins} outs(%init : {c}) -> {c} loc(unknown)
"""
        return text + self.finished(accumulator)

    def flops(self) -> int:
        """Two for each element of the window and of the result; on padding too."""
        return 2 * self.terms * self.result().size + self.epilogue_flops()
