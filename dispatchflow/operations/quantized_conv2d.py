"""y[n,oh,ow,f] = Σ_{i,j,c} (x[n, oh·stride + i·dilation - padding, …, c] - input_zp) · (w[i,j,c,f] - weight_zp)"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from dispatchflow.operations._contraction import ZERO_POINTS, zero_points
from dispatchflow.operations._convolution import Convolution
from dispatchflow.operations.api import Array, Loop, Option, Signature, signature


class QuantizedConv2d(Convolution):
    """A convolution of 8-bit integers with zero points, without the scaling that usually follows.

    The elements of the padding are equal to the image's zero point, so that they add nothing. With zero points that are
    not 0, IREE 3.13 compiles the layout `nhwc_hwcf` to several dispatches, like a quantized matmul, and the layout
    `nchw_fchw` to one dispatch."""

    name: ClassVar[str] = "quantized_conv2d"
    dims: ClassVar[tuple[str, ...]] = ("n", "h", "w", "c", "f", "kh", "kw")
    by_dims: ClassVar[bool] = False
    layouts: ClassVar[tuple[str, ...]] = ("nhwc_hwcf", "nchw_fchw")
    signatures: ClassVar[Mapping[str, Signature]] = {"i8": signature("i8,i8->i32")}
    options: ClassVar[Mapping[str, Option]] = {**ZERO_POINTS, **Convolution.options}
    library_options: ClassVar[tuple[str, ...]] = tuple(options)
    ops: ClassVar[Mapping[str, str]] = {layout: f"conv_2d_{layout}_q" for layout in layouts}
    outs, summed = "f", "hwc"

    @property
    def loops(self) -> tuple[Loop, ...]:
        """An empty tuple, because no tuning can tile the op.

        IREE 3.13 replaces the op by several ops that handle the zero points separately."""
        return ()

    def reference(self, operands: Sequence[Array]) -> Array:
        image, weights = (operand - point for operand, point in zip(operands, zero_points(self), strict=True))
        return self.dense(image, weights)
