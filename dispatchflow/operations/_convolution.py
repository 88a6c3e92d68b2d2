"""What convolutions share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from dispatchflow.operations import _mlir
from dispatchflow.operations._base import Operand
from dispatchflow.operations._contraction import FLOATS
from dispatchflow.operations._window import Window
from dispatchflow.types import Signature, TensorType, signature


class Convolution(Window):
    """The layout is the image's letters and the weights', as in the names of linalg's ops; the window does not turn."""

    ops: ClassVar[Mapping[str, str]]
    """Layout → the named op."""
    outs: ClassVar[str]
    """The dim of the result's channels."""
    summed: ClassVar[str]
    """The weights' letters that are summed over."""
    signatures: ClassVar[Mapping[str, Signature]] = {**FLOATS, "i8": signature("i8,i8->i32")}

    @property
    def groups(self) -> int:
        """So many parts of the channels are convolved apart."""
        return 1

    def _weights(self) -> Operand:
        letters = self.layout.split("_")[1]
        # In the weights' part of a layout h and w are the window's, c is of one group.
        sizes = {letter: self.size({"h": "kh", "w": "kw"}.get(letter, letter)) for letter in letters}
        sizes["c"] //= self.groups
        summed = tuple(axis for axis, letter in enumerate(letters) if letter in self.summed)
        return Operand(TensorType(tuple(sizes.values()), self.signature.operands[1]), summed)

    def operands(self) -> tuple[Operand, ...]:
        return (Operand(self.image(self.size("h"), self.size("w"), self.size("c"), 0)), self._weights())

    def result(self) -> TensorType:
        return self.image(*self.outputs, self.size(self.outs), -1)

    def body(self, attribute: str) -> str:
        image, weights = (operand.type for operand in self.operands())
        out, accumulator = self.result(), self.image(*self.outputs, self.size(self.outs), -2)
        text, name, image = self.padded(image, image.element.zero)
        text += _mlir.filled(accumulator, accumulator.element.zero)
        text += self.convolved(name, image, weights, accumulator, attribute)
        if accumulator == out:
            return text + _mlir.returned("sum", out)
        return text + _mlir.narrowed("sum", accumulator, out) + _mlir.returned("out", out)

    def convolved(
        self, name: str, image: TensorType, weights: TensorType, accumulator: TensorType, attribute: str
    ) -> str:
        """`%sum` from `%name`, `%arg1` and `%init`, which are of these types."""
        attributes = ", ".join([self.strides, *filter(None, [attribute.strip(" {}")])])
        c, ins = accumulator.mlir, f"ins(%{name}, %arg1 : {image.mlir}, {weights.mlir})"
        return f"""\
    %sum = linalg.{self.ops[self.layout]} {{{attributes}}} {ins} outs(%init : {c}) -> {c} loc(unknown)
"""

    def flops(self) -> int:
        """Two for each element of the window and of the result; on padding too."""
        return 2 * self.terms * self.result().size
