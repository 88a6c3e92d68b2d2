"""The base class of convolutions and poolings: a window with stride, dilation and padding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, ClassVar

from dispatchflow.operations.api import Array, Operation, Option, TensorType


@lru_cache
def lines_seen(size: int, window: int, steps: int, stride: int, dilation: int, padding: int) -> int:
    """Return how many rows of an image are read by a window that moves over the image.

    The image has `size` rows, not counting the padding. The window has `window` rows and is placed at `steps`
    positions. If the arguments are widths, the result is the number of columns."""
    seen: set[int] = set()
    for i in range(window):
        first = i * dilation - padding
        seen.update(range(first, first + stride * steps, stride))
    return sum(0 <= line < size for line in seen)


class Window(Operation):
    """The base class of operations that move a window over images.

    There are `n` images of `h` by `w` pixels with `c` channels; the window has `kh` by `kw` elements. The first four
    letters of the layout are the dims of the image, in memory order."""

    options: ClassVar[Mapping[str, Option]] = {
        "stride": Option(range(1, 17), "step of a window, in both directions"),
        "dilation": Option(range(1, 17), "distance of a window's elements, in both directions"),
        "padding": Option(range(17), "rows and columns added on each of the four sides"),
    }

    library_options: ClassVar[tuple[str, ...]] = ("stride", "dilation", "padding")

    @property
    def parallel(self) -> tuple[str, ...]:
        return ("n", "h", "w", "c")

    def size(self, dim: str) -> int:
        return self.sizes[self.dims.index(dim)]

    @property
    def strides(self) -> str:
        """The attributes `dilations` and `strides` of linalg's convolution and pooling ops, as MLIR text."""
        dilation, stride = (f"dense<{self.option(word)}> : tensor<2xi64>" for word in ("dilation", "stride"))
        return f"dilations = {dilation}, strides = {stride}"

    @property
    def outputs(self) -> tuple[int, int]:
        """Height and width of the result."""
        stride, dilation, padding = (self.option(word) for word in ("stride", "dilation", "padding"))
        height, width = (
            (self.size(size) + 2 * padding - dilation * (self.size(window) - 1) - 1) // stride + 1
            for size, window in (("h", "kh"), ("w", "kw"))
        )
        return height, width

    def illegal(self, backend: str) -> str | None:
        if min(self.outputs) < 1:
            sides = (f"{self.size(a)}x{self.size(b)}" for a, b in (("kh", "kw"), ("h", "w")))
            return "a window of {} with this dilation does not fit into an image of {} with this padding".format(*sides)
        return None

    def read_bytes(self) -> int:
        """Return the size of all operands in bytes, not counting pixels of the image that no window reads."""
        stride, dilation, padding = (self.option(word) for word in ("stride", "dilation", "padding"))
        rows, columns = (
            lines_seen(self.size(size), self.size(window), steps, stride, dilation, padding)
            for size, window, steps in zip(("h", "w"), ("kh", "kw"), self.outputs, strict=True)
        )
        _, *others = self.operands()
        return self.image(rows, columns, self.size("c"), 0).nbytes + sum(operand.type.nbytes for operand in others)

    def image(self, height: int, width: int, channels: int, index: int) -> TensorType:
        """Return the tensor type of images with these sizes. Its dims are in the order of the layout.

        `index` selects the element type: that of an operand (0, 1, …), of the result (-1) or of the accumulator (-2).
        """
        sizes = {"n": self.size("n"), "h": height, "w": width, "c": channels}
        types = self.types
        elements = (*types.operands, types.accumulator, types.result)
        return TensorType(tuple(sizes[letter] for letter in self.layout[:4]), elements[index])

    def padded(self, image: TensorType, literal: str) -> tuple[str, str, TensorType]:
        """Return MLIR ops that pad the image `%arg0`, and the name and type of the padded image.

        `image` is the type of `%arg0`, and `literal` is the value of the padding. If the option `padding` is 0, there
        are no ops, and the name is `arg0`."""
        if not (padding := self.option("padding")):
            return "", "arg0", image
        amounts = [padding if letter in "hw" else 0 for letter in self.layout[:4]]
        shape = tuple(size + 2 * amount for size, amount in zip(image.shape, amounts, strict=True))
        larger, element, sides = TensorType(shape, image.element), image.element.mlir, ", ".join(map(str, amounts))
        indices = ", ".join(f"%i{axis}: index loc(unknown)" for axis in range(4))
        text = f"""\
    %border = arith.constant {literal} : {element} loc(unknown)
    %padded = tensor.pad %arg0 low[{sides}] high[{sides}] {{
    ^bb0({indices}):
      tensor.yield %border : {element} loc(unknown)
    }} : {image.mlir} to {larger.mlir} loc(unknown)
"""
        return text, "padded", larger

    def windows(self, image: Array, border: Any) -> Iterator[tuple[int, int, Array]]:
        """Yield (i, j, pixels) for the element in each row i and column j of the window.

        `pixels` is an array [n, oh, ow, c]. It has the pixel under this element, for each of the n images and each of
        the oh · ow positions of the window. Pixels outside of the image have the value `border`."""
        import numpy as np

        image = np.moveaxis(image, [self.layout.index(letter) for letter in "nhwc"], range(4))
        stride, dilation, padding = (self.option(word) for word in ("stride", "dilation", "padding"))
        image = np.pad(image, [(0, 0), (padding, padding), (padding, padding), (0, 0)], constant_values=border)
        height, width = self.outputs
        for i in range(self.size("kh")):
            for j in range(self.size("kw")):
                top, left = i * dilation, j * dilation
                rows = slice(top, top + stride * (height - 1) + 1, stride)
                yield i, j, image[:, rows, left : left + stride * (width - 1) + 1 : stride]

    def laid_out(self, image: Array) -> Array:
        """Return the array `image` [n, oh, ow, c] with its axes permuted to the order of the layout."""
        import numpy as np

        return np.moveaxis(image, range(4), [self.layout.index(letter) for letter in "nhwc"])

    def library_seen(self, image: str, border: str) -> str:
        """Return a numpy expression for an array of all windows of an image.

        `image` is the expression for the image, and `border` is the value of the padding. The position of the
        window is (oh, ow). The array's dims are [n, oh, ow, c, kh, kw] if the image has the order `nhwc`, and
        [n, c, oh, ow, kh, kw] if the image has the order `nchw`."""
        stride, dilation, padding = (self.option(word) for word in ("stride", "dilation", "padding"))
        if padding:
            sides = ", ".join(f"({padding}, {padding})" if letter in "hw" else "(0, 0)" for letter in self.layout[:4])
            image = f"np.pad({image}, ({sides}), constant_values={border})"
        spans = ", ".join(str(dilation * (self.size(dim) - 1) + 1) for dim in ("kh", "kw"))
        axes = ", ".join(str(self.layout.index(letter)) for letter in "hw")
        view = f"np.lib.stride_tricks.sliding_window_view({image}, ({spans}), axis=({axes}))"
        if stride == dilation == 1:
            return view
        steps = [f"::{stride}" if letter in "hw" else ":" for letter in self.layout[:4]]
        return f"{view}[{', '.join([*steps, f'::{dilation}', f'::{dilation}'])}]"

    def library_turned(self, value: str, letters: str, wanted: str) -> str:
        """Return a torch expression that permutes the dims of `value` from the order `letters` to `wanted`.

        For the value `x0` and the orders `nhwc` and `nchw`, the expression is `x0.permute(0, 3, 1, 2)`."""
        order = [letters.index(letter) for letter in wanted]
        return value if letters == wanted else f"{value}.permute({', '.join(map(str, order))})"

    @property
    def library_words(self) -> str:
        return ", ".join(f"{word}={self.option(word)}" for word in ("stride", "padding", "dilation"))
