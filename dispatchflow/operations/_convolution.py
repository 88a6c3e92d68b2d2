"""The base class of convolutions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from dispatchflow.operations._contraction import FLOATS, library_centered, zero_points
from dispatchflow.operations._epilogue import Summed
from dispatchflow.operations._window import Window
from dispatchflow.operations.api import Array, Library, Loop, Operand, Signature, TensorType, signature, snippets


class Convolution(Summed, Window):
    """A convolution of images with weights. The weights are not flipped.

    A layout, such as `nhwc_hwcf`, names the dims of the image and then those of the weights, one letter for each dim.
    The layouts are named as in linalg's ops."""

    multiplies: ClassVar[bool] = True
    ops: ClassVar[Mapping[str, str]]
    """A dict from each layout to the named op of linalg that computes the convolution."""
    outs: ClassVar[str]
    """The letter of the result's channel dim, such as `f`."""
    summed: ClassVar[str]
    """The letters of the weights' dims that are summed over, such as `hwc`."""
    signatures: ClassVar[Mapping[str, Signature]] = {**FLOATS, "i8": signature("i8,i8->i32")}

    @property
    def parallel(self) -> tuple[str, ...]:
        return ("n", "h", "w", self.outs)

    @property
    def groups(self) -> int:
        """The number of channel groups; each group is convolved separately."""
        return 1

    @property
    def recipes(self) -> tuple[str, ...]:
        found = super().recipes
        if not self.has_wide or (self.groups == 1 and self.size("c") > 1) or self.terms == 1:
            return found
        # The factors cannot take turns along the channels: each has all digits in a set of its own.
        return (*found[:-1], "wide2", found[-1])

    @property
    def channel_axis(self) -> int:
        return self.layout.index("c")

    @property
    def may_copy(self) -> bool:
        """True if the image is padded. IREE 3.9 to 3.13 copies a padded image, if no flags request fusion."""
        return bool(self.option("padding"))

    def _weights(self) -> Operand:
        letters = self.layout.split("_")[1]
        # In the weights' letters, h and w are the window's sizes, and c is the number of channels of one group.
        sizes = {letter: self.size({"h": "kh", "w": "kw"}.get(letter, letter)) for letter in letters}
        sizes["c"] //= self.groups
        summed = tuple(axis for axis, letter in enumerate(letters) if letter in self.summed)
        # With groups, a channel of the weights is multiplied with a channel of each group, so that no axis is shared.
        shared = letters.index("c") if self.groups == 1 else None
        tensor = TensorType(tuple(sizes.values()), self.signature.operands[1])
        return Operand(tensor, summed, shared, lines=(letters.index(self.outs),))

    def operands(self) -> tuple[Operand, ...]:
        image = self.image(self.size("h"), self.size("w"), self.size("c"), 0)
        weights = self._weights()
        shared = self.layout.index("c") if weights.shared is not None else None
        begun = (Operand(self.image(*self.outputs, self.size(self.outs), -2)),) if self.accumulates else ()
        crossed = (self.layout.index("c"),) if "c" in self.summed else ()
        lines = (0, self.layout.index("c")) if self.outs == "c" else (0,)
        return (Operand(image, shared=shared, crossed=crossed, lines=lines), weights, *begun, *self.parameters())

    def result(self) -> TensorType:
        return self.image(*self.outputs, self.size(self.outs), -1)

    def body(self, attribute: str) -> str:
        image, weights = (operand.type for operand in self.operands()[:2])
        accumulator = self.image(*self.outputs, self.size(self.outs), -2)
        points = zero_points(self)
        text, name, image = self.padded(image, str(points[0]) if points else image.element.zero)
        text += "" if self.accumulates else snippets.filled(accumulator, accumulator.element.zero)
        text += self.convolved(name, image, weights, accumulator, attribute)
        return text + self.finished(accumulator)

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The loops of linalg's named op, in the op's order.

        With groups, a loop `g` over the groups is added before the loop over the result's channels. The loop over the
        result's channels and the loop over the image's channels then cover only one group."""
        sizes = {"n": self.size("n"), **dict(zip(("oh", "ow"), self.outputs, strict=True))}
        sizes |= {dim: self.size(dim) for dim in ("kh", "kw")} | {"g": self.groups}
        sizes |= {dim: self.size(dim) // self.groups for dim in ("c", self.outs)}
        parallel, summed = ["n", "oh", "ow", self.outs], ["kh", "kw"]
        if "c" in self.summed:
            first = self.layout.startswith("nc")
            parallel = ["n", self.outs, "oh", "ow"] if first else parallel
            summed = ["c", *summed] if first else [*summed, "c"]
        if self.groups > 1:
            parallel.insert(parallel.index(self.outs), "g")
        return tuple(Loop(dim, sizes[dim], dim in summed) for dim in (*parallel, *summed))

    def library_lacks(self, library: Library) -> str | None:
        if library.name == "numpy":
            return "the numpy call has no groups" if self.groups > 1 else super().library_lacks(library)
        if not self.signature.accumulator.is_float and self.option("dilation") != 1:
            return "torch has no convolution of integers with dilation (2.14: not implemented for 'Int')"
        return super().library_lacks(library)

    def library_call(self, library: Library) -> str:
        """Return a Python expression that calls torch's `conv2d`, or numpy's `einsum`.

        `einsum` multiplies the weights with the pixels that the window covers at each of its positions, and adds the
        products."""
        image, weights, *begun = library_centered(self, library.operands(self.library_types, 2 + self.accumulates))
        of_image, letters = self.layout.split("_")
        if library.name == "numpy":
            result = of_image.replace("c", self.outs)
            dims = f"{of_image}ij,{letters.replace('h', 'i').replace('w', 'j')}->{result}"
            value = f'np.einsum("{dims}", {self.library_seen(image, "0")}, {weights}, optimize=True)'
            return self.library_finished(library, " + ".join([value, *begun]))
        image = self.library_turned(image, of_image, "nchw")
        weights = self.library_turned(weights, letters, "fchw" if "f" in letters else "chw")
        groups = self.groups if "f" in letters else self.size("c")
        weights += "" if "f" in letters else ".unsqueeze(1)"
        value = f"F.conv2d({image}, {weights}, {self.library_words}, groups={groups})"
        value = self.library_turned(value, "nchw", of_image)
        return self.library_finished(library, " + ".join([value, *begun]))

    def convolved(
        self, name: str, image: TensorType, weights: TensorType, accumulator: TensorType, attribute: str
    ) -> str:
        """Return the MLIR ops that compute `%sum`, the convolution of an image with weights."""
        attributes = ", ".join([self.strides, *filter(None, [attribute.strip(" {}")])])
        names, values, constants = snippets.scalars(zero_points(self), accumulator.element)
        c, ins = accumulator.mlir, f"ins(%{name}, %arg1{names} : {image.mlir}, {weights.mlir}{values})"
        return f"""\
{constants}\
    %sum = linalg.{self.ops[self.layout]} {{{attributes}}} {ins} outs(%{self.init} : {c}) -> {c} loc(unknown)
"""

    def dense(self, image: Array, weights: Array) -> Array:
        """Convolve an image with weights in numpy. The image is padded with zeros; no epilogue is applied."""
        import numpy as np

        from dispatchflow.operations._numeric import product

        weights = np.moveaxis(weights, [self.layout.split("_")[1].index(letter) for letter in "hwcf"], range(4))

        def grouped(matrix: Array) -> Array:
            """Return an array [rows, channels] as [groups, rows, channels of one group]."""
            return np.moveaxis(matrix.reshape(len(matrix), self.groups, -1), 1, 0)

        total = sum(
            product(grouped(seen.reshape(-1, seen.shape[-1])), grouped(weights[i, j]))
            for i, j, seen in self.windows(image, 0)
        )
        shape = (self.size("n"), *self.outputs, self.size("f"))
        return self.laid_out(np.moveaxis(np.asarray(total), 0, 1).reshape(shape))

    def flops(self) -> int:
        """Each product of a pixel and a weight, with its addition, counts as two flops.

        Products with pixels of the padding count too. If there is an epilogue, its flops are added."""
        return 2 * self.terms * self.result().size + self.epilogue_flops()
