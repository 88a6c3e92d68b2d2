"""y[m,n] = (x[m,n] - μ[m]) / √(σ²[m] + ε) · γ[n] + β[n], or x[m,n] / √(mean_n x² + ε) · γ[n]"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from dispatchflow.operations._sums import drift, drifting, growth
from dispatchflow.operations.api import (
    Array,
    Library,
    Operand,
    Operation,
    Option,
    Signature,
    TensorType,
    signature,
    snippets,
)

EPSILON = 2.0**-17
"""The ε of the formula: about 1e-5. Every element type represents this number exactly."""


class Norm(Operation):
    """Layer normalization of each row, with a scale and a shift; or RMS normalization, with a scale.

    The small number ε under the root is 2**-17."""

    name: ClassVar[str] = "norm"
    dims: ClassVar[tuple[str, ...]] = ("m", "n")
    signatures: ClassVar[Mapping[str, Signature]] = {
        "f32": signature("f32->f32"),
        "f16_f32_f16": signature("f16->f32->f16"),
    }
    options: ClassVar[Mapping[str, Option]] = {"kind": Option(("layer", "rms"), "the function or reduction")}
    library_options: ClassVar[tuple[str, ...]] = ("kind",)

    @property
    def _layer(self) -> bool:
        return bool(self.option("kind") == "layer")

    def illegal(self, backend: str) -> str | None:
        return drifting(self.sizes[1], self.signature.accumulator)

    @property
    def parallel(self) -> tuple[str, ...]:
        return ("m",)

    @property
    def recipes(self) -> tuple[str, ...]:
        """The names of the recipes that make inputs for verification (docs/verification.md)."""
        # With `layer`, every third row of `shifted` has few terms, too.
        mixed, few = ["mixed"] * (self.sizes[1] >= 8), [] if self._layer and self.sizes[0] > 2 else ["few"]
        return ("counted", *mixed, *(["shifted"] if self._layer else []), *few, "random")

    def _few(self, recipe: str) -> Array:
        """Return a mask of the rows that have only a few nonzero elements in the inputs of a recipe."""
        import numpy as np

        third: Array = np.arange(self.sizes[0]) % 3 == 2
        return third if recipe == "shifted" else np.full_like(third, recipe == "few")

    @property
    def _terms(self) -> int:
        """The largest number of nonzero elements in a row of the inputs that the recipe `few` generates."""
        return min(8 if self._layer else 4, self.sizes[1])

    def made(self, recipe: str) -> list[Array] | None:
        """Return the inputs that a recipe makes for verification; None for the recipe `random`."""
        # `counted`: nearly all elements of a row have the distance 2**-8 from the row's mean, half of them above and
        # half below. The squares of the distances are equal powers of two, so that the sums for mean and variance are
        # exact in any order. If one of n squares is lost or doubled, or if n - 1 is used for n, the variance changes by
        # 1 / n of its value, and the result by 1 / 3n of its value. The variance is about 2·ε, so that a wrong or
        # missing ε changes the result. For `layer`, the mean is 2**-12, a sixteenth of the distance, so that x - mean
        # is exact even if a device's quotient sum / n is not exact. If n is odd, one element is twice as far above the
        # mean. Two elements above the mean and two below it are up to twice as far from it, so that a variance that
        # loses digits changes the result. These four distances have as many digits as exact sums permit. One row of 16
        # is 16 times smaller, so that the variance is about ε / 128, and one of eight is larger, so that the variance
        # is about 1 or 256. In a single column of `rms`, the elements have all their digits: they are about √ε, so that
        # a lost digit changes the result.
        #
        # `mixed`: some elements above the mean, and as many below it, are twice as far from it, and the mean is 0. Sums
        # are still exact, but those of neighboring tiles differ. An element or a tile that is summed in place of
        # another therefore changes the variance, which it does not in `counted`.
        #
        # `shifted`: all elements of a row are the same power of two, except two near its end, one above and one below
        # it. One unit in the last place of the mean of squares is then at least 8 times the variance (less in short
        # rows of f16). Therefore a variance that is computed as the mean of squares minus the square of the mean is
        # wrong, in whatever order the squares are added. Sums of equal powers of two are exact in any order, and the
        # two other elements cause few roundings. In every fourth row, all elements are 1, so that the variance is 0.
        #
        # `few`: four elements of a row (eight for `layer`) have all digits of their type, and all others are 0, so that
        # no sum is long. The first two cancel each other, so that the mean μ is small. Each zero adds μ² to the sum of
        # squares. All of these together are a negligible part of the variance, and are in the bound. A mean that loses
        # digits changes the results of the elements that are 0. For `layer`, the three large elements of a long row are
        # near its end. For each zero after them, a kernel that updates a running mean adds the square of that mean to
        # its sum; of many such additions, rounding would lose a part.
        #
        # In `shifted` and `few`, three of four rows are scaled to the largest numbers of their type, so that squares
        # overflow narrower types. In most rows of `shifted`, the distances from the mean are much smaller than the
        # numbers. Therefore every third row is one of `few`, in which the distances are as large as the numbers.
        if recipe == "random":
            return None
        import numpy as np

        from dispatchflow.operations._norm_inputs import balanced, few_terms, shifted
        from dispatchflow.operations._random import stream, uniform
        from dispatchflow.operations._range import exponents

        (m, n), (_, *vectors) = self.sizes, self.operands()
        step, rows = 2.0**-8, np.arange(m)[:, None]
        raw = stream(0, 3, m * n).reshape(m, n)
        few = self._few(recipe)
        if recipe in ("counted", "mixed"):
            x = step * balanced(raw, recipe, self._layer, self.signature)
        else:
            x = shifted(raw, self.signature)
        if recipe == "counted" and self._layer:
            x = x - x.mean(axis=1, keepdims=True) + step / 16
        if few.any():
            x[few] = few_terms(few, raw, self._terms, self._layer, self.signature)
        if recipe == "counted":  # smaller and larger variances; they are 0 for `layer` and a single column
            larger = 8 + 4 * (rows // 8 % 2)
            x = x * 2.0 ** np.select([rows % 16 == 2, rows % 8 == 3], [-4, larger if n > 1 else 0])
        elif recipe != "mixed":  # scale up, but keep the squares finite in the accumulator
            largest = np.ceil(np.log2(abs(x).max(axis=1, keepdims=True)))
            powers = min(exponents(self.signature.operands[0])[1] - 1, 40) - largest
            x = x * 2.0 ** (powers * (rows % 4 != 3))
        row = (uniform(stream(1 + i, 1, n), v.type.element, v.low, v.high) for i, v in enumerate(vectors))
        return [x, *(values.astype(np.float64) for values in row)]

    def operands(self) -> tuple[Operand, ...]:
        x, row = self.result(), TensorType((self.sizes[1],), self.signature.operands[0])
        scale, shift = Operand(row, low=0.5, high=1.5), Operand(row)
        return (Operand(x), scale, shift) if self._layer else (Operand(x), scale)

    def result(self) -> TensorType:
        return TensorType(self.sizes, self.signature.result)

    def body(self, attribute: str) -> str:
        x, y, e = self.operands()[0].type, self.result(), self.signature.accumulator
        f, each = e.mlir, TensorType((self.sizes[0],), e)
        wide = {name: snippets.widened(f"{name}_wide", name, x.element, e) for name in ("x", "scale", "shift")}
        centered = [*wide["x"][0]]
        value = wide["x"][1]
        if self._layer:
            centered += [f"%mean = arith.divf %s, %count : {f}", f"%d = arith.subf %{value}, %mean : {f}"]
            value = "d"
        text = f"""\
    %count = arith.constant {self.sizes[1]}.0 : {f} loc(unknown)
    %epsilon = arith.constant {EPSILON!r} : {f} loc(unknown)
"""
        text += snippets.filled(each, e.zero) + snippets.empty("empty_out", y)
        row, column, both = "n", "m", "mn"
        if self._layer:
            lines = [*wide["x"][0], f"%next = arith.addf %so_far, %{wide['x'][1]} : {f}", "next"]
            maps = snippets.affine(both, both, column)
            text += snippets.generic("sum", maps, "pr", {"arg0": x}, ("init", each), ("x", "so_far"), lines)
        sums, names = ({"sum": each}, ("s",)) if self._layer else ({}, ())
        lines = [*centered, f"%square = arith.mulf %{value}, %{value} : {f}"]
        lines += [f"%next = arith.addf %so_far, %square : {f}", "next"]
        maps = snippets.affine(both, both, *[column] * len(sums), column)
        inputs = {"arg0": x, **sums}
        text += snippets.generic("squares", maps, "pr", inputs, ("init", each), ("x", *names, "so_far"), lines)
        lines = [*centered, f"%variance = arith.divf %v, %count : {f}", f"%w = arith.addf %variance, %epsilon : {f}"]
        lines += [f"%r = math.rsqrt %w : {f}", f"%unit = arith.mulf %{value}, %r : {f}"]
        lines += [*wide["scale"][0], f"%scaled = arith.mulf %unit, %{wide['scale'][1]} : {f}"]
        vectors = {f"arg{i}": operand.type for i, operand in enumerate(self.operands()) if i}
        given, found = ("scale", "shift")[: len(vectors)], "scaled"
        if self._layer:
            lines += [*wide["shift"][0], f"%moved = arith.addf %scaled, %{wide['shift'][1]} : {f}"]
            found = "moved"
        if y.element is not e:
            lines += [f"%narrow = arith.truncf %{found} : {f} to {y.element.mlir}"]
            found = "narrow"
        inputs = {"arg0": x, **sums, "squares": each, **vectors}
        maps = snippets.affine(both, both, *[column] * (len(sums) + 1), *[row] * len(vectors), both)
        arguments = ("x", *names, "v", *given, "unused")
        text += snippets.generic("all", maps, "pp", inputs, ("empty_out", y), arguments, [*lines, found])
        return text + snippets.returned("all", y)

    def _parts(self, operands: Sequence[Array]) -> tuple[Array, Array]:
        """Return the formula's dividend (x - mean, or x for `rms`) and its divisor, which is a square root."""
        import numpy as np

        x = operands[0]
        centered = x - x.mean(axis=1, keepdims=True) if self._layer else x
        return centered, np.sqrt((centered**2).mean(axis=1, keepdims=True) + EPSILON)

    def reference(self, operands: Sequence[Array]) -> Array:
        return self._result(*self._parts(operands), operands)

    def _result(self, centered: Array, root: Array, operands: Sequence[Array]) -> Array:
        found: Array = centered / root
        found *= operands[1]
        return found + operands[2] if self._layer else found

    def error(self, operands: Sequence[Array]) -> Array:
        """Return a bound on the error of each result.

        The bound includes the errors of all steps, from the mean to the result."""
        # Here u is the accumulator's unit roundoff. Mean μ, a sum and a quotient: δμ = max(growth + 1, ULPS) · u ·
        # mean|x|. `growth` requires terms with both signs, as in the recipe `random`. In `shifted` all terms have one
        # sign, but only two of them cause roundings. Difference d = x - μ: δd = δμ + u·|d|. Variance v, a sum of
        # positive terms: δv = mean(2·|d|·δd + δd²) + (drift + 2u) · (v + ε). With t = δv / (v + ε), 1/√(v + ε) may be
        # 1/√(1-t) times too large, and at most √((v + ε)/ε) times; computing the root adds a relative error of ULPS ·
        # u.
        return self._error(operands, self.sizes[1], 0.0)

    def _error(self, operands: Sequence[Array], terms: int, rest: Array | float) -> Array:
        """Return the error bound for rows with `terms` large elements; the other elements are tiny.

        `rest` is a bound on the relative error that the tiny elements cause in (variance + ε)."""
        import numpy as np

        from dispatchflow.operations._numeric import ULPS

        unit, grown = self.signature.accumulator.unit, growth(terms)
        (d, root), x = self._parts(operands), operands[0]
        off = (
            max(grown + 1, ULPS) * unit * abs(x).mean(axis=1, keepdims=True) + unit * abs(d) if self._layer else 0.0 * d
        )
        spread = (2 * abs(d) * off + off**2).mean(axis=1, keepdims=True) / root**2
        spread += drift(terms, self.signature.accumulator) + rest + 2 * unit
        # A computed variance is never negative, so that the computed root is at least √ε.
        larger = np.maximum(1 - spread, EPSILON / root**2) ** -0.5
        quotient = off / root * larger + abs(d) / root * (larger - 1 + (ULPS + 4) * unit)
        bound: Array = quotient * abs(operands[1]) + unit * abs(self._result(d, root, operands))
        return bound

    def error_on(self, recipe: str, operands: Sequence[Array]) -> Array:
        """Return a bound on the error of each result for the inputs of a recipe.

        A recipe is a way to make inputs for verification."""
        # For `counted` and `mixed` the bound is 4·ULPS·u·|scale·(x − mean)/root| + u·|result|. The first term is for
        # the roundings of means, root and quotients. The sums of these inputs have almost no rounding errors, except in
        # a kernel that updates a running mean.
        #
        # In a row of `few`, all but `_terms` elements are 0. These zeros add nothing to the sum for the mean, and at
        # most n·μ² to the sum of squares. The bound is that for `_terms` terms, with an additional error of at most
        # n·μ² in the sum of squares.
        import numpy as np

        if recipe in ("counted", "mixed"):
            from dispatchflow.operations._numeric import ULPS

            unit, (d, root) = self.signature.accumulator.unit, self._parts(operands)
            found = self._result(d, root, operands)
            bound: Array = 4 * ULPS * unit * abs(d / root * operands[1]) + unit * abs(found)
            return bound
        few = self._few(recipe)
        if not few.any():
            return self.error(operands)
        x, *vectors = operands
        bound = np.empty_like(x)
        bound[~few] = self.error([x[~few], *vectors])
        root, mean = self._parts([x[few]])[1], x[few].mean(axis=1, keepdims=True) if self._layer else 0.0
        rest = np.minimum(drift(self.sizes[1], self.signature.accumulator), (mean / root) ** 2)
        bound[few] = self._error([x[few], *vectors], self._terms, rest)
        return bound

    def library_call(self, library: Library) -> str:
        """Return a call of torch's `layer_norm` or `rms_norm`, or the formula in numpy."""
        types = self.signature
        if library.name == "torch":
            rest = f"x2, {EPSILON!r}" if self._layer else f"{EPSILON!r}"
            return f"F.{'layer' if self._layer else 'rms'}_norm(x0, ({self.sizes[1]},), x1, {rest})"
        x, *row = (
            name if types.operands[0] is types.accumulator else library.cast(name, types.accumulator)
            for name in ("x0", "x1", "x2")
        )
        centered = f"(d := (x := {x}) - x.mean(axis=1, keepdims=True))" if self._layer else f"(d := {x})"
        root = f"np.sqrt((d * d).mean(axis=1, keepdims=True) + d.dtype.type({EPSILON!r}))"
        return library.rounded(f"{centered} / {root} * {row[0]}" + (f" + {row[1]}" if self._layer else ""), types)

    def flops(self) -> int:
        """Each element counts as 8 flops (`layer`: mean 1, variance 3, result 4) or as 4 flops (`rms`)."""
        return (8 if self._layer else 4) * self.sizes[0] * self.sizes[1]
