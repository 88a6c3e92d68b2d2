"""y[b,m,n] = Σ_k2 softmax_k2(scale · Σ_k1 q[b,m,k1] · k[b,k2,k1] + mask[b,m,k2]) · v[b,k2,n]"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from dispatchflow.operations._sums import drifting, growth, inverse_drift
from dispatchflow.operations.api import (
    Array,
    ElementType,
    Library,
    Operand,
    Operation,
    Option,
    Signature,
    TensorType,
    signature,
    snippets,
)


class Attention(Operation):
    """Scaled dot-product attention with `m` queries, `k2` keys and `k2` values.

    Queries and keys have the size `k1`, and values have the size `n`. A score is the product of a query and a key,
    times the scale, plus the mask if there is one. Scores are in the accumulator's type. The scale is a power of two
    near 1/√k1.

    With `causal=yes`, query `i` (from 0) has the position `k2 - m + i`, as in FlashAttention. The query sees the keys
    at the positions 0 to `k2 - m + i`. (With PyTorch's `is_causal`, query `i` sees the keys up to `i`.) The module
    computes the causal mask in a separate dispatch."""

    name: ClassVar[str] = "attention"
    dims: ClassVar[tuple[str, ...]] = ("b", "m", "n", "k1", "k2")
    signatures: ClassVar[Mapping[str, Signature]] = {
        "f32": signature("f32,f32,f32->f32"),
        "f16": signature("f16,f16,f16->f32->f16"),
    }
    options: ClassVar[Mapping[str, Option]] = {
        "mask": Option(("no", "yes"), "whether an operand is added to the scores"),
        "causal": Option(("no", "yes"), "whether a query sees no key after its own position; m ≤ k2"),
    }
    library_options: ClassVar[tuple[str, ...]] = ("mask", "causal")

    @property
    def _masked(self) -> bool:
        return bool(self.option("mask") == "yes")

    @property
    def _causal(self) -> bool:
        return bool(self.option("causal") == "yes")

    def illegal(self, backend: str) -> str | None:
        _, m, _, _, k2 = self.sizes
        if self._causal and m > k2:
            return f"{m} queries cannot be the last of {k2} positions: the first would see no key"
        return drifting(k2, self.signature.accumulator)

    @property
    def parallel(self) -> tuple[str, ...]:
        return ("b", "m", "n")

    @property
    def recipes(self) -> tuple[str, ...]:
        """The names of the recipes that make inputs for verification (docs/verification.md).

        In the recipe `balanced`, the signs of the queries alternate. If there is only one query, the recipes
        `balanced2` and `counted2` are added. The recipe `balanced2` has the query of `balanced` with the opposite sign.
        The query gives weight to all keys in `counted`, and to only some keys in `counted2`."""
        if self.sizes[1] == 1:
            return ("counted", "counted2", "rising", "balanced", "balanced2", "peaked", "highest", "random")
        return ("counted", "rising", "balanced", "peaked", "highest", "random")

    def made(self, recipe: str) -> list[Array] | None:
        """Return the inputs that a recipe makes for verification; None for the recipe `random`.

        The module `_attention_inputs` describes the other recipes."""
        if recipe == "random":
            return None
        import numpy as np

        from dispatchflow.operations import _attention_inputs

        (b, m, n, k1, k2), element = self.sizes, self.signature.operands[0]
        last = k2 - 1 - (np.arange(m)[::-1] if self._causal else np.zeros(m, int))
        shape = _attention_inputs.Shape(b, m, n, k1, k2, round(-np.log2(self._scale)), self._masked, last)
        if recipe.startswith("counted"):
            return _attention_inputs.counted(shape, self._causal, element, recipe == "counted2")
        if recipe == "rising":
            return _attention_inputs.rising(shape, element)
        if recipe == "peaked":
            return _attention_inputs.peaked(shape, element)
        if recipe == "highest":
            return _attention_inputs.highest(shape, element)
        return _attention_inputs.balanced(shape, recipe == "balanced2")

    def operands(self) -> tuple[Operand, ...]:
        b, m, n, k1, k2 = self.sizes
        shapes = [(b, m, k1), (b, k2, k1), (b, k2, n)]
        tensors = [TensorType(shape, e) for shape, e in zip(shapes, self.signature.operands, strict=True)]
        tensors += [TensorType((b, m, k2), self.signature.operands[0])] if self._masked else []
        return tuple(Operand(tensor, low=-2.0, high=2.0) for tensor in tensors)

    def result(self) -> TensorType:
        b, m, n, _, _ = self.sizes
        return TensorType((b, m, n), self.signature.result)

    def body(self, attribute: str) -> str:
        """Return the MLIR of the function's body.

        The attention op is written in MLIR's generic form, which is the same in all IREE releases."""
        out, scores = self.result(), self.signature.accumulator.mlir
        operands = [operand.type for operand in self.operands()]
        scalar = self.signature.operands[0].mlir
        name, mask, seen = self._seen() if self._causal else ("arg3", operands[-1], "")
        masked = self._masked or self._causal
        dims = "bml"[-len(mask.shape) :]
        maps = snippets.affine("bmnkl", "bmk", "blk", "bln", "", *([dims] if masked else []), "bmn")
        names = ["%arg0", "%arg1", "%arg2", "%scale", *([f"%{name}"] if masked else []), "%empty"]
        types = [*(t.mlir for t in operands[:3]), scalar, *([mask.mlir] if masked else []), out.mlir]
        return f"""\
{seen}\
    %scale = arith.constant {self._scale!r} : {scalar} loc(unknown)
{snippets.empty("empty", out)}\
    %all = "iree_linalg_ext.attention"({", ".join(names)}) <{{indexing_maps = [{", ".join(maps)}]}}> ({{
    ^bb0(%score: {scores} loc(unknown)):
      "iree_linalg_ext.yield"(%score) : ({scores}) -> () loc(unknown)
    }}) : ({", ".join(types)}) -> {out.mlir} loc(unknown)
{snippets.returned("all", out)}"""

    def _seen(self) -> tuple[str, TensorType, str]:
        """Return the name and the type of the causal mask, and the MLIR ops that compute the mask.

        Without a mask operand, the mask is true for the keys that a query sees, and false for all other keys. With a
        mask operand, it has the operand's numbers for the keys that a query sees, and minus infinity for all others."""
        _, m, _, _, k2 = self.sizes
        # The op's region could compare indices instead. But on llvm-cpu it gets the indices within a tile, and results
        # are wrong without an error message (IREE 3.12, 3.13).
        dims = "bml" if self._masked else "ml"
        lines = [f"%i = linalg.index {dims.index('m')} : index", f"%j = linalg.index {dims.index('l')} : index"]
        lines += [f"%before = arith.constant {k2 - m} : index", "%last = arith.addi %i, %before : index"]
        lines += ["%seen = arith.cmpi sle, %j, %last : index"]
        mask, inputs, made = TensorType((m, k2), ElementType.I1), {}, "seen"
        if self._masked:
            mask = self.operands()[3].type
            inputs, made = {"arg3": mask}, "y"
            lines += [f"%never = arith.constant {snippets.lowest(mask.element)} : {mask.element.mlir}"]
            lines += [f"%y = arith.select %seen, %x, %never : {mask.element.mlir}"]
        arguments = (*["x"] * len(inputs), "unused")
        maps = snippets.affine(dims, *[dims] * len(arguments))
        text = snippets.empty("mask_empty", mask)
        text += snippets.generic("mask", maps, "p" * len(dims), inputs, ("mask_empty", mask), arguments, [*lines, made])
        return "mask", mask, text

    @property
    def _scale(self) -> float:
        """The largest power of two that is not above 1/√k1. Every element type represents it exactly."""
        return float(2.0 ** -(((self.sizes[3] - 1).bit_length() + 1) // 2))

    def _weights(self, operands: Sequence[Array]) -> tuple[Array, Array]:
        """Return the softmax of the scores, and the distance of each score from its query's largest score.

        The distance is 0 for keys that the query does not see."""
        import numpy as np

        scores = self._scale * (operands[0] @ operands[1].swapaxes(1, 2)) + (operands[3] if self._masked else 0)
        _, m, _, _, k2 = self.sizes
        seen = np.tri(m, k2, k2 - m, dtype=bool) if self._causal else np.ones((m, k2), bool)
        below = np.where(seen, np.where(seen, scores, -np.inf).max(axis=2, keepdims=True) - scores, 0)
        powers = np.where(seen, np.exp(-below), 0)
        return powers / powers.sum(axis=2, keepdims=True), below

    def reference(self, operands: Sequence[Array]) -> Array:
        found: Array = self._weights(operands)[0] @ operands[2]
        return found

    def error(self, operands: Sequence[Array]) -> Array:
        """Return a bound on the rounding error of each result element."""
        # The unit roundoff of the accumulator is u. The unit roundoff of the operands' type is w; scaled queries and
        # weights may be rounded to this type. The relative error of an exponential is ρ, and that of 1 / Σ exponentials
        # is δ. The mean of ρ uses the weights of the keys. A sum of n terms has the error growth · u · Σ|terms|, with
        # growth = `_sums.growth(n)`.
        #
        # The error of a score is ((growth + 2) · u + 2 · w) · Σ|terms|. This error plus (2·below + 2·ULPS) · u is ρ, as
        # in softmax, where `below` is (largest score - score). ULPS counts twice because partial results are rescaled.
        from dispatchflow.operations._numeric import ULPS

        unit, own = self.signature.accumulator.unit, self.signature.operands[0].unit
        weights, below = self._weights(operands)
        terms = self._scale * (abs(operands[0]) @ abs(operands[1]).swapaxes(1, 2))
        terms = terms + (abs(operands[3]) if self._masked else 0)
        off = ((growth(self.sizes[3]) + 2) * unit + 2 * own) * terms + (2 * below + 2 * ULPS) * unit
        mean = (weights * off).sum(axis=2, keepdims=True)
        drifted = inverse_drift(self.sizes[4], self.signature.accumulator)
        # A result's bound is the sum over keys of weight · |v| · (ρ + mean of ρ + δ + (growth + 2) · u + 2 · w).
        whole = off + mean + drifted + (growth(self.sizes[4]) + 2) * unit + 2 * own
        bound: Array = (weights * whole) @ abs(operands[2])
        return bound

    def error_on(self, recipe: str, operands: Sequence[Array]) -> Array:
        """Return a bound on the error of each result, for inputs that a recipe makes for verification."""
        # u, w and growth are the same as in `error`. The relative error of an exponential is
        # ρ = 4·ULPS·u + 2·u · a · Σ|terms| of its score. For `counted` and `highest`, a is the number of additions
        # within a score, because equal scores may be added in different orders. For other recipes, a is growth + 2. The
        # result is y, and ε = (4·ULPS·u + 2·w) · Σ weight · |v|. The bounds:
        # - `counted`, `counted2`: Σ weight · |v| · (ρ + mean of ρ) + 2·w · |y|. The last term is for the rounding to
        #   the operands' type, which changes all queries or weights equally. It is larger if a weight is subnormal in
        #   this type.
        # - `balanced`: Σ weight · |v| · (ρ + mean of ρ) + ε.
        # - `highest`: the bound of `balanced` without w, because the operands' type represents each weight exactly.
        # - `rising`: the bound of `balanced` + 2·w · (deviation of q · k + deviation of the mask) · deviation of v.
        #   These are standard deviations with the weights of a query. A constant that is rounded to the operands'
        #   type, such as log2(e), changes all scores by the same fraction, and the result by the covariance of the
        #   scores with the values.
        # - `peaked`: 2 · (largest ρ + 16·w) · spread + w / tail · Σ weight · |v - v'| + ε; with a mask, w / tail
        #   counts twice. The spread is a bound on Σ weight · |v - y|, and v' is the value of the other key in a pair
        #   of keys (0 and 1, 2 and 3, …). The term with v' is for the last digits of a query and of a mask.
        if recipe == "random":
            return self.error(operands)
        import numpy as np

        from dispatchflow.operations import _attention_inputs
        from dispatchflow.operations._numeric import ULPS
        from dispatchflow.operations._range import exponents

        unit, own = self.signature.accumulator.unit, self.signature.operands[0].unit
        terms = self._scale * (abs(operands[0]) @ abs(operands[1]).swapaxes(1, 2))
        weights, _ = self._weights(operands)
        y, sizes = weights @ operands[2], weights @ abs(operands[2])
        additions, is_counted = (operands[0] != 0).sum(axis=2, keepdims=True) - 1, recipe.startswith("counted")
        added = additions if is_counted or recipe == "highest" else growth(self.sizes[3]) + 2
        off = 2 * unit * added * terms + 4 * ULPS * unit
        bound: Array = (weights * (off + (weights * off).sum(axis=2, keepdims=True))) @ abs(operands[2])
        if is_counted:
            subnormal = 2.0 ** (exponents(self.signature.operands[0])[0]) * own  # a rounding of a subnormal weight
            bound += (own + np.maximum(own, subnormal / weights.max(axis=2, keepdims=True))) * abs(y)
            return bound
        if recipe == "highest":
            bound += 4 * ULPS * unit * sizes
            return bound
        rounded = (4 * ULPS * unit + 2 * own) * sizes
        if recipe == "rising":
            products = self._scale * (operands[0] @ operands[1].swapaxes(1, 2))
            spread = sum(_attention_inputs.deviation(weights, part) for part in (products, *operands[3:]))
            bound += 2 * own * spread * np.sqrt(np.maximum(1 - y**2, 0))
        if recipe != "peaked":
            bound += rounded
            return bound
        off = np.where(weights > 2.0**-40, off, 0).max(axis=2, keepdims=True) + 16 * own
        partner = np.arange(self.sizes[4]) ^ 1
        partner = np.where(partner < self.sizes[4], partner, partner ^ 1)
        apart = weights @ abs(operands[2] - operands[2][:, partner])
        near = np.minimum(np.sqrt(np.maximum(weights @ operands[2] ** 2 - y**2, 0)), sizes + abs(y))
        bound = 2 * off * near + (1 + self._masked) * own / _attention_inputs.tail(self.signature.operands[0]) * apart
        bound += rounded
        return bound

    def library_call(self, library: Library) -> str:
        """Return a call of torch's `scaled_dot_product_attention`, or the formula in numpy."""
        _, m, _, _, k2 = self.sizes
        if library.name == "torch":
            mask = "attn_mask=x3, " if self._masked else ""
            if self._causal and m == k2 and not self._masked:
                mask = "is_causal=True, "
            elif self._causal:
                ones = f"torch.ones({m}, {k2}, dtype=torch.bool, device=x0.device)"
                seen = f"{ones}.tril({k2 - m})"
                mask = f"attn_mask={f'x3.where({seen}, -torch.inf)' if self._masked else seen}, "
            return f"F.scaled_dot_product_attention(x0, x1, x2, {mask}scale={self._scale!r})"
        q, k, v = library.operands(self.signature, 3)
        mask = f" + {library.cast('x3', self.signature.accumulator)}" if self._masked else ""
        scores = f"{q} @ {k}.swapaxes(1, 2) * {self._scale!r}{mask}"
        if self._causal:
            scores = f"np.where(np.tri({m}, {k2}, {k2 - m}, dtype=bool), {scores}, -np.inf)"
        scores = f"(s := {scores})"
        weights = f"(e := np.exp({scores} - s.max(axis=2, keepdims=True))) / e.sum(axis=2, keepdims=True)"
        return library.rounded(f"({weights}) @ {v}", self.signature)

    def flops(self) -> int:
        """Each term of both products counts as two flops if the query sees the key; softmax does not count."""
        b, m, n, k1, k2 = self.sizes
        pairs = m * k2 - (m * (m - 1) // 2 if self._causal else 0)
        return 2 * b * pairs * (k1 + n)
