"""y[n,oh,ow,c] = max_{i,j} x[n, oh·stride + i·dilation - padding, ow·stride + j·dilation - padding, c], or the sum"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from math import prod
from typing import ClassVar

from dispatchflow.operations._window import Window
from dispatchflow.operations.api import (
    Array,
    Library,
    Loop,
    Operand,
    Option,
    Signature,
    TensorType,
    signature,
    snippets,
)


class Pooling(Window):
    """The largest element of each window of an image, or the sum of the window's elements.

    Elements of the padding are never the largest, and add nothing to a sum."""

    name: ClassVar[str] = "pooling"
    dims: ClassVar[tuple[str, ...]] = ("n", "h", "w", "c", "kh", "kw")
    layouts: ClassVar[tuple[str, ...]] = ("nhwc", "nchw")
    signatures: ClassVar[Mapping[str, Signature]] = {
        word: signature(f"{word}->{word}") for word in ("f32", "f16", "f64", "i32")
    }
    options: ClassVar[Mapping[str, Option]] = {
        "kind": Option(("max", "sum"), "the function or reduction"),
        **Window.options,
    }
    factors: ClassVar[int] = 1
    library_options: ClassVar[tuple[str, ...]] = ("kind", *Window.library_options)

    @property
    def bitwise(self) -> bool:
        return self.option("kind") == "max" or not self.signature.result.is_float

    @property
    def terms(self) -> int:
        return self.size("kh") * self.size("kw") if self.option("kind") == "sum" else 1

    @property
    def has_wide(self) -> bool:
        return self.option("kind") == "sum" and self.signature.accumulator.is_float

    def made(self, recipe: str) -> list[Array] | None:
        """Return the inputs of a recipe; None if the module `verification.inputs` makes them.

        A recipe is a way to make inputs for verification."""
        # `exact`, for `max`: negative integers. A kernel that begins a maximum with 0, or pads with 0, gives too large
        # results. In every third channel of an image the numbers are near the lowest number of the type; in every
        # second of these channels, all are the lowest number. A maximum that begins with any higher number is then
        # wrong. One element of each channel is larger than all others (see `_maxima`).
        #
        # `random`, for `max` of floats: the numbers of neighboring channels have different ranges, so that a large
        # window of one channel has another result than the same window of the next. Those of some channels are
        # multiplied by a large power of two, so that a clamp shows.
        #
        # `wide`, for `sum`: numbers that use the full significand, and zeros. The numbers are so far apart that no
        # window has two of them.
        tensor = self.operands()[0].type
        if recipe != "wide" and (self.option("kind") == "sum" or (recipe == "random" and not tensor.element.is_float)):
            return None
        import numpy as np

        from dispatchflow.operations import _maxima
        from dispatchflow.operations._random import below, full, stream, uniform
        from dispatchflow.operations._range import are_lowered, line_numbers, lowered

        if recipe == "wide":
            values = full(stream(0, 2, tensor.size), tensor.element.digits).reshape(tensor.shape)
            for word, window in (("h", "kh"), ("w", "kw")):
                apart = self.size(window) * self.option("dilation")
                axis = self.layout.index(word)
                kept = [size % apart == 0 for size in range(tensor.shape[axis])]
                values = values * np.reshape(kept, [-1 if i == axis else 1 for i in range(4)])
            return [values]
        lines = (self.layout.index("n"), self.layout.index("c"))
        numbers = line_numbers(tensor.shape, lines)
        if recipe == "random":
            raw = stream(0, 1, tensor.size).reshape(tensor.shape)
            values = uniform(raw, tensor.element).astype(np.float64) * _maxima.shares(numbers)
            return [values * _maxima.heights(numbers, tensor.element)]
        # `lowest` becomes the lowest number of the type. The channels near it have few different numbers: even the
        # largest of them is then lower than nearly any number with which a wrong kernel may begin a maximum.
        room = min(2 ** (tensor.element.digits - 1), 2**30)
        level, far, lowest = numbers % _maxima.LEVELS, are_lowered(numbers), 2.0 - room
        draws = below(stream(0, 0, tensor.size), room).reshape(tensor.shape)
        values = np.where(far, lowest + draws % 99, -2.0 - level - draws % (room - _maxima.LEVELS - 3))
        largest = np.where(far, lowest + 99, -1.0 - level).ravel()
        channels = np.moveaxis(values, lines, (0, 1))
        images, shape = channels.shape[:2], channels.shape[2:]
        places = np.unravel_index(_maxima.places(numbers.size, prod(shape), forward=True), shape)
        channels[(*np.unravel_index(np.arange(numbers.size), images), *places)] = largest
        unit = np.where(numbers % 6 == 3, np.inf, 1.0)
        return [lowered(values, lines, tensor.element, unit)]

    def operands(self) -> tuple[Operand, ...]:
        return (Operand(self.image(self.size("h"), self.size("w"), self.size("c"), 0)),)

    def result(self) -> TensorType:
        return self.image(*self.outputs, self.size("c"), -1)

    def body(self, attribute: str) -> str:
        image, out, kind = self.operands()[0].type, self.result(), self.option("kind")
        literal = snippets.lowest(out.element) if kind == "max" else out.element.zero
        window, y = TensorType((self.size("kh"), self.size("kw")), out.element), out.mlir
        text, name, image = self.padded(image, literal)
        text += snippets.empty("window", window) + snippets.filled(out, literal)
        ins = f"ins(%{name}, %window : {image.mlir}, {window.mlir})"
        attributes = ", ".join([self.strides, *filter(None, [attribute.strip(" {}")])])
        text += f"""\
    %all = linalg.pooling_{self.layout}_{kind} {{{attributes}}} {ins} outs(%init : {y}) -> {y} loc(unknown)
"""
        return text + snippets.returned("all", out)

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The loops of linalg's named op: the dims of the result in memory order, then the window's dims."""
        dims = {"n": "n", "h": "oh", "w": "ow", "c": "c"}
        parallel = zip((dims[letter] for letter in self.layout), self.result().shape, strict=True)
        window = (Loop(dim, self.size(dim), summed=True) for dim in ("kh", "kw"))
        return (*(Loop(dim, size) for dim, size in parallel), *window)

    def reference(self, operands: Sequence[Array]) -> Array:
        import numpy as np

        (image,), element, largest = operands, self.signature.result, self.option("kind") == "max"
        lowest = -np.inf if element.is_float else -(2**element.digits)
        seen = (part for _, _, part in self.windows(image, lowest if largest else 0))
        return self.laid_out(reduce(np.maximum if largest else np.add, seen))

    def library_lacks(self, library: Library) -> str | None:
        if library.name == "numpy":
            return Window.library_lacks(self, library)
        if self.option("kind") == "sum" and self.option("dilation") != 1:
            return "torch has no sum pooling with dilation"
        if self.option("kind") == "sum" and not self.signature.result.is_float:
            return "torch has no sum pooling of integers (2.14: not implemented for 'Int')"
        if 2 * self.option("padding") > min(self.size("kh"), self.size("kw")):
            return "torch pads by at most half a window"
        return Window.library_lacks(self, library)

    def library_call(self, library: Library) -> str:
        """Return a Python expression that computes the pooling with torch or numpy."""
        if library.name == "numpy" and self.option("kind") == "max":
            lowest = "-np.inf" if self.signature.result.is_float else "np.iinfo(x0.dtype).min"
            return f"{self.library_seen('x0', lowest)}.max(axis=(4, 5))"
        if library.name == "numpy":
            return f"{self.library_seen('x0', '0')}.sum(axis=(4, 5), dtype=x0.dtype)"
        image = self.library_turned("x0", self.layout, "nchw")
        window = f"({self.size('kh')}, {self.size('kw')})"
        if self.option("kind") == "max":
            value = f"F.max_pool2d({image}, {window}, {self.library_words})"
        else:
            # torch has no sum pooling, but a mean pooling with a divisor of 1 gives the sum.
            words = f"stride={self.option('stride')}, padding={self.option('padding')}, divisor_override=1"
            value = f"F.avg_pool2d({image}, {window}, {words})"
        return self.library_turned(value, "nchw", self.layout)

    def flops(self) -> int:
        """Each element of the result counts as kh · kw flops."""
        return self.size("kh") * self.size("kw") * self.result().size
