"""y[n,oh,ow,f] = Σ_{i,j,c} x[n, oh·stride + i·dilation - padding, ow·stride + j·dilation - padding, c] · w[i,j,c,f]"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from dispatchflow.operations._base import Option
from dispatchflow.operations._convolution import Convolution
from dispatchflow.operations._epilogue import EPILOGUE

if TYPE_CHECKING:
    from dispatchflow.operations._base import Array


class Conv2d(Convolution):
    """Convolution of `c` channels to `f`. `h` and `w` are of the image before padding."""

    name: ClassVar[str] = "conv2d"
    dims: ClassVar[tuple[str, ...]] = ("n", "h", "w", "c", "f", "kh", "kw")
    layouts: ClassVar[tuple[str, ...]] = ("nhwc_hwcf", "nchw_fchw")
    ops: ClassVar[Mapping[str, str]] = {layout: f"conv_2d_{layout}" for layout in layouts}
    options: ClassVar[Mapping[str, Option]] = {**Convolution.options, "epilogue": EPILOGUE}
    outs, summed = "f", "hwc"

    def reference(self, operands: Sequence[Array]) -> Array:
        import numpy as np

        from dispatchflow.operations._numeric import product

        weights = np.moveaxis(operands[1], [self.layout.split("_")[1].index(letter) for letter in "hwcf"], range(4))
        total = sum(
            product(seen.reshape(-1, seen.shape[-1]), weights[i, j]) for i, j, seen in self.windows(operands[0], 0)
        )
        sums = np.asarray(total).reshape(self.size("n"), *self.outputs, self.size("f"))
        return self.applied(self.laid_out(sums), operands)
