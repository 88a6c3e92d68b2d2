"""y[n,oh,ow,c] = Σ_{i,j} x[n, oh·stride + i·dilation - padding, ow·stride + j·dilation - padding, c] · w[i,j,c]"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from dispatchflow.operations._convolution import Convolution
from dispatchflow.operations.api import Array


class DepthwiseConv2d(Convolution):
    """A convolution of each channel separately, which is a convolution with as many groups as channels."""

    name: ClassVar[str] = "depthwise_conv2d"
    dims: ClassVar[tuple[str, ...]] = ("n", "h", "w", "c", "kh", "kw")
    layouts: ClassVar[tuple[str, ...]] = ("nhwc_hwc", "nchw_chw")
    ops: ClassVar[Mapping[str, str]] = {layout: f"depthwise_conv_2d_{layout}" for layout in layouts}
    outs, summed = "c", "hw"

    def reference(self, operands: Sequence[Array]) -> Array:
        import numpy as np

        weights = np.moveaxis(operands[1], [self.layout.split("_")[1].index(letter) for letter in "hwc"], range(3))
        return self.laid_out(np.asarray(sum(seen * weights[i, j] for i, j, seen in self.windows(operands[0], 0))))
