"""y[n,oh,ow,f] = Σ_{i,j,c} x[n, oh·stride + i·dilation - padding, ow·stride + j·dilation - padding, c] · w[i,j,c,f]"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from dispatchflow.operations._convolution import Convolution
from dispatchflow.operations._epilogue import ACCUMULATE, EPILOGUE
from dispatchflow.operations.api import Array, Option, TensorType, snippets


class Conv2d(Convolution):
    """Convolution of `c` channels to `f` channels; `h` and `w` are the image's sizes before padding.

    With groups, `c` and `f` are the numbers of channels of all groups together, and the weights have `c / groups`
    channels, as in PyTorch and TensorFlow. The first `f / groups` channels of the result use the first `c / groups`
    channels of the image. The next channels of the result use the next ones of the image, and so on."""

    name: ClassVar[str] = "conv2d"
    dims: ClassVar[tuple[str, ...]] = ("n", "h", "w", "c", "f", "kh", "kw")
    layouts: ClassVar[tuple[str, ...]] = ("nhwc_hwcf", "nchw_fchw")
    options: ClassVar[Mapping[str, Option]] = {
        **Convolution.options,
        "accumulate": ACCUMULATE,
        "groups": Option(range(1, 4097), "number of channel groups, each convolved separately"),
        "epilogue": EPILOGUE,
    }
    library_options: ClassVar[tuple[str, ...]] = (*Convolution.library_options, "accumulate", "groups", "epilogue")
    ops: ClassVar[Mapping[str, str]] = {layout: f"conv_2d_{layout}" for layout in layouts}
    outs, summed = "f", "hwc"

    @property
    def groups(self) -> int:
        return int(self.option("groups"))

    def illegal(self, backend: str) -> str | None:
        c, f = self.size("c"), self.size("f")
        if c % self.groups or f % self.groups:
            return f"{c} channels and {f} results are not both multiples of {self.groups} groups"
        return Convolution.illegal(self, backend)

    def convolved(
        self, name: str, image: TensorType, weights: TensorType, accumulator: TensorType, attribute: str
    ) -> str:
        """Return MLIR ops that define `%sum`, the convolution of an image with the weights.

        With groups, the ops split the axis `c` of the image, and the axis `f` of the weights and of the result. Each
        becomes two axes: the group, and the channel within the group."""
        if self.groups == 1:
            return Convolution.convolved(self, name, image, weights, accumulator, attribute)
        of_image, of_weights = self.layout.split("_")
        channel, result = of_image.index("c"), of_weights.index("f")
        x, w = snippets.split(image, channel, self.groups), snippets.split(weights, result, self.groups)
        y = snippets.split(accumulator, channel, self.groups)
        text = snippets.reshaped("image", name, image, x, channel) + snippets.reshaped(
            "weights", "arg1", weights, w, result
        )
        text += snippets.reshaped("begun", self.init, accumulator, y, channel)
        # linalg has no named op for groups with weights in the layout `hwcf`.
        if self.layout == "nchw_fchw":
            attributes = ", ".join([self.strides, *filter(None, [attribute.strip(" {}")])])
            text += f"""\
    %groups = linalg.conv_2d_ngchw_gfchw {{{attributes}}} ins(%image, %weights : {x.mlir}, {w.mlir}) \
outs(%begun : {y.mlir}) -> {y.mlir} loc(unknown)
"""
        else:
            text += self._generic(x, w, y, attribute)
        return text + snippets.reshaped("sum", "groups", y, accumulator, channel)

    def _generic(self, x: TensorType, w: TensorType, y: TensorType, attribute: str) -> str:
        stride, dilation = self.option("stride"), self.option("dilation")
        seen = ["n", f"p * {stride} + i * {dilation}", f"q * {stride} + j * {dilation}", "g", "c"]
        maps = [f"affine_map<(n, p, q, g, f, i, j, c) -> ({', '.join(map_)})>" for map_ in (seen, "ijcgf", "npqgf")]
        e = y.element
        (wide_a, a), (wide_b, b) = (
            snippets.widened(f"{name}_wide", name, t.element, e) for name, t in (("a", x), ("b", w))
        )
        lines = [*wide_a, *wide_b, f"%term = {snippets.arith('mul', e)} %{a}, %{b} : {e.mlir}"]
        lines += [f"%next = {snippets.arith('add', e)} %so_far, %term : {e.mlir}", "next"]
        inputs = {"image": x, "weights": w}
        return snippets.generic(
            "groups", maps, "ppppprrr", inputs, ("begun", y), ("a", "b", "so_far"), lines, attribute
        )

    def reference(self, operands: Sequence[Array]) -> Array:
        total = self.dense(*operands[:2]) + (operands[2] if self.accumulates else 0)
        return self.applied(total, operands)
