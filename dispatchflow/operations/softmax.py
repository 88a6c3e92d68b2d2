"""y[m,n] = exp(x[m,n] - max_n x[m,n]) / Σ_n exp(x[m,n] - max_n x[m,n])"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from dispatchflow.operations._sums import drifting, inverse_drift
from dispatchflow.operations.api import Array, Library, Operand, Operation, Signature, TensorType, signature, snippets


class Softmax(Operation):
    """Softmax of each row.

    With the dtype `f16`, sums are computed in f16. Rows of more than 512 elements are then skipped, because they cannot
    be verified. With `f16_f32_f16`, everything is computed in f32."""

    name: ClassVar[str] = "softmax"
    dims: ClassVar[tuple[str, ...]] = ("m", "n")
    signatures: ClassVar[Mapping[str, Signature]] = {
        "f32": signature("f32->f32"),
        "f16": signature("f16->f16"),
        "f16_f32_f16": signature("f16->f32->f16"),
    }

    def illegal(self, backend: str) -> str | None:
        why = drifting(self.sizes[1], self.signature.accumulator)
        return why and why + ("; f16_f32_f16 adds in f32" if self.signature == self.signatures["f16"] else "")

    @property
    def parallel(self) -> tuple[str, ...]:
        return ("m",)

    @property
    def recipes(self) -> tuple[str, ...]:
        """The names of the operation's recipes, which are ways to make inputs for verification."""
        mixed = ["mixed"] * (self.sizes[1] >= 8)
        # With eight rows, some rows of `counted` are like those of `single`; with two, the second row of
        # `peaked` is one of `rising`.
        single, rising = ["single"] * (self.sizes[0] < 8), ["rising"] * (self.sizes[0] == 1)
        return ("counted", *mixed, *single, "peaked", *rising, "random")

    def made(self, recipe: str) -> list[Array] | None:
        """Return the inputs that a recipe makes for verification; None for the recipe `random`."""
        # `counted`: in each row some elements are equal, and all others are so low that their exponentials are zero.
        # The exponentials of the equal elements are ones. Their sum is the number of these elements (count), exactly
        # and in any order of summation, and a result is 1 / count or 0. A term that is lost or doubled changes a result
        # by 1 / count of the result.
        #
        # All elements of a row are equal if the result's type distinguishes 1 / count from 1 / (count + 1). Otherwise
        # only every second element (or every third, …) is equal, so that the type distinguishes these numbers, and the
        # next row has its equal elements elsewhere. One of eight rows has a single largest element, so that a maximum
        # that leaves out an element is detected. The equal elements are 128 or -128, the others lower by 256. If the
        # maximum is not subtracted, or includes a zero of padding, exponentials overflow or vanish in f32 and f16. In
        # every third row, the equal elements have magnitudes of 2**14 or more. A single largest element is near the
        # lowest numbers of the type (`_low`), so that a maximum that begins with a wrong number is detected.
        #
        # If count is a power of two, 1 / count has a single digit, and an inverse with few digits would not be
        # detected. Therefore one element of such a row is changed: it becomes unequal if all were equal, otherwise
        # equal. With fewer than eight rows, an element that becomes unequal is the row's largest in `single`. If sums
        # are in f16, only every second row is changed, because a term with half of its weight shows only if count is a
        # power of two.
        #
        # `mixed`: a random half of a row's elements is equal, fewer if 1 / count needs more digits than the result's
        # type has. The number of equal elements differs from tile to tile. An element or a tile that is summed in place
        # of another therefore changes count, which it does not in `counted`.
        #
        # `single`: each row has a single largest element. In the first row and every second one after it, all elements
        # are near the lowest numbers of the type (`_low`). In the others, the largest is 2**14 or more, and all others
        # are lower by 256. In the first row the largest is the last element. A maximum without the last tile is then
        # wrong, and so is an online softmax whose last tile does not rescale the sum.
        #
        # `peaked`: one element of a row is 128, and its neighbor is larger by an amount that half of the type's digits
        # cannot represent. All others are lower by 256, or by much more, as masked elements are. The results of the two
        # elements depend on their difference. A maximum that leaves out both of them is detected. In the first row,
        # they are the first two elements. The second row, and every fourth row after it, is `rising` instead.
        #
        # `rising`: see `_rising`.
        if recipe == "random":
            return None
        import numpy as np

        from dispatchflow.operations._random import bits
        from dispatchflow.operations._range import lowest, stride

        m, n = self.sizes
        if recipe == "rising":
            return [self._rising(m)]
        if recipe == "mixed":
            thinned = max(1, n.bit_length() + 1 - self.signature.result.digits)
            among = bits(0, (m, n), thinned) | (np.arange(n) == np.arange(m)[:, None] % n)
            return [128.0 - 256.0 * ~among]
        far, turned = 2.0 ** (14 if self.signature.operands[0].bits == 16 else 24), np.arange(m) * stride(n)
        if recipe == "single":
            alone = np.arange(n) == (n - 1 + turned[:, None]) % n
            return [np.where(np.arange(m)[:, None] % 2 == 0, self._low(alone), far - 256.0 * ~alone)]
        if recipe == "peaked":
            element = self.signature.operands[0]
            masked = [*([-3e4] if element.bits == 16 else [-1e4, -1e9]), lowest(element)]
            x = np.tile(np.resize([-128.0, *masked], n), (m, 1))
            x[np.arange(m), (turned + 1) % n] = 128.0
            x[np.arange(m), turned % n] = 128.0 * (1 + 2.0 ** -(element.digits // 2 + 1))
            x[1::4] = self._rising(len(x[1::4]))
            return [x]
        apart = -(-n // 2 ** min(self.signature.result.digits - 1, 18))
        row, column = np.arange(m)[:, None], np.arange(n)
        single = row % 8 == 7
        place = (row - row // 8) % apart
        among = (n - 1 - column) % apart == place
        count = (n - 1 - place) // apart + 1
        changed = (count > 2) & (count & (count - 1) == 0) & ((self.signature.accumulator.bits > 16) | (row % 2 == 1))
        other = n - 1 - (place + 1) % apart if apart > 1 else (n - 1 + turned[:, None]) % n
        among[row[changed], other[changed]] ^= True
        alone = column == (n - 1 + row // 8 * stride(n)) % n
        largest = np.where(row % 2 == 0, -128.0, 128.0) * np.where(row % 3 == 0, far / 128, 1.0)
        return [np.where(single, self._low(alone), largest - 256.0 * ~among)]

    def _low(self, largest: Array) -> Array:
        """Return an array of numbers near the lower end of the element type's range.

        There are two numbers: the larger where the boolean array `largest` is true, and the smaller elsewhere."""
        import numpy as np

        # f16: the exponential of the distance overflows. f32: a kernel may compute powers of two, and multiply its
        # arguments by log2(e); this product is exact for a power of two.
        numbers = (-65408.0, -65504.0) if self.signature.operands[0].bits == 16 else (-(2.0**126), -(2.0**127))
        return np.where(largest, *numbers)

    @property
    def _stairs(self) -> tuple[int, float]:
        """The number T of stairs (steps of the running maximum) that `_rising` makes, and an exponent p.

        After stair t, counted from 1, the exponential of the running maximum is (t / T)**p."""
        # An online softmax rescales its sum at each stair. If it omits this at stair 2, where this matters least, the
        # relative error is about (1 + p) · (2**p - 1) / T**(1 + p): more than the bound, which grows with T.
        stairs, power = (8, 1.0) if self.signature.accumulator.bits == 16 else (512, 0.2)
        return min(max(self.sizes[1] // 2, 1), stairs), power

    @property
    def _nearest(self) -> float:
        """The smallest distance below a row's maximum for which `_rising` tests the exponential.

        Smaller distances are tested by the recipe `random`, whose inputs differ by at most this distance."""
        return 2 * self._most

    def _rising(self, rows: int) -> Array:
        """Return rows whose running maximum rises to 0 in many small steps, which are called stairs.

        The maximum reaches 0 near the end of a row."""
        # In each tile with a stair, an online softmax must rescale the sum of the earlier tiles, by a factor near one.
        # All stairs have a visible weight. Therefore a tile that does not rescale is detected wherever it is, and so is
        # a kernel that rescales only if the maximum grows by much. The stairs are spread over the row, and are at other
        # places in the next row. In the first row, the last stair is the last element.
        #
        # About 256 to 512 other elements (half of a row that is shorter) are neighbors of stairs. They are lower than
        # the maximum by all distances from `_nearest` to 256, in mixed order and more densely where exponentials are
        # larger. An exponential that is wrong at some distance is thus detected. The first distance is 100 in f32,
        # where exponentials are subnormal. All further elements are lower by 256.
        import numpy as np

        from dispatchflow.operations._range import stride

        n, (stairs, power) = self.sizes[1], self._stairs
        t, row, width = np.arange(stairs), np.arange(rows)[:, None], n // stairs
        within = ((stairs - 1 - t) * stride(width) + row * (int(0.382 * width) | 1)) % width
        x, end = np.full((rows, n), -256.0), (t + 1) * n // stairs - 1
        beside = min(width - 1, max(256 // stairs, 1))
        for i in range(beside):
            place = (0.55 + ((row * beside + i) * stairs + t) * 0.618034) % 1
            x[row, end - (within + 1 + i) % width] = -self._nearest - (256 - self._nearest) * place**2
        x[row, end - within] = power * np.log((t + 1) / stairs)
        return x

    @property
    def _most(self) -> float:
        """The largest magnitude of the random inputs.

        This magnitude is so small that exp(-2 · magnitude) is a normal number of the result's type."""
        return 4.0 if self.signature.result.bits == 16 else 16.0

    def operands(self) -> tuple[Operand, ...]:
        return (Operand(TensorType(self.sizes, self.signature.operands[0]), low=-self._most, high=self._most),)

    def result(self) -> TensorType:
        return TensorType(self.sizes, self.signature.result)

    def body(self, attribute: str) -> str:
        x, wide = self.result(), TensorType(self.sizes, self.signature.accumulator)
        given, before, after, returned = "arg0", "", "", "all"
        if wide != x:
            lines, value = snippets.widened("y", "x", x.element, wide.element)
            maps, arguments = snippets.affine("mn", "mn", "mn"), ("x", "unused")
            before = snippets.generic("given", maps, "pp", {"arg0": x}, ("empty", wide), arguments, [*lines, value])
            given, after, returned = "given", snippets.narrowed("all", wide, x), "out"
        t = wide.mlir
        op = f"    %all = linalg.softmax dimension(1) ins(%{given} : {t}) outs(%empty : {t}) -> {t} loc(unknown)\n"
        return snippets.empty("empty", wide) + before + op + after + snippets.returned(returned, x)

    def reference(self, operands: Sequence[Array]) -> Array:
        import numpy as np

        found: Array = operands[0] - operands[0].max(axis=1, keepdims=True)
        np.exp(found, out=found)
        found /= found.sum(axis=1, keepdims=True)
        return found

    def library_call(self, library: Library) -> str:
        """Return a call of torch's `softmax`, or the formula in numpy."""
        if library.name == "torch":
            return "F.softmax(x0, 1)"
        (x,) = library.operands(self.signature, 1)
        quotient = f"(e := np.exp((x := {x}) - x.max(axis=1, keepdims=True))) / e.sum(axis=1, keepdims=True)"
        return library.rounded(quotient, self.signature)

    def error(self, operands: Sequence[Array]) -> Array:
        """Return a bound on the rounding error of each result element."""
        from dispatchflow.operations._numeric import ULPS

        (x,), y = operands, self.reference(operands)
        element = self.signature.accumulator
        # ρ is `own`; in it, ULPS stands for the error of the function exp itself, in units of u.
        own = (2 * (x.max(axis=1, keepdims=True) - x) + ULPS) * element.unit
        # A result y has the bound y · (ρ + Σ y·ρ + δ + u). ρ bounds the relative error of an exponential.
        # δ (`inverse_drift`) is for the additions in the divisor, and u (the unit roundoff) for the division.
        shared = (y * own).sum(axis=1, keepdims=True) + inverse_drift(self.sizes[1], element) + element.unit
        bound: Array = y * (own + shared)
        return bound

    def error_on(self, recipe: str, operands: Sequence[Array]) -> Array:
        """Return a bound on the error of each result, for inputs that a recipe makes for verification."""
        if recipe == "random":
            return self.error(operands)
        import numpy as np

        from dispatchflow.operations._numeric import ULPS

        (x,), y, unit = operands, self.reference(operands), self.signature.accumulator.unit
        top = x.max(axis=1, keepdims=True)
        # `peaked` adds 2·|max|·u, because a kernel may compute powers of two and round x · log2(e). A rising row, whose
        # maximum is 0, has a bound of its own.
        own = 2 * ULPS + 2 * top * (recipe == "peaked")
        # A kernel that leaves the largest term out of a row's sum has a larger error than y · (largest y) / 4.
        bound: Array = y * np.minimum(own * unit, y.max(axis=1, keepdims=True) / 4)
        if recipe in ("peaked", "rising"):
            rows = top[:, 0] == 0
            bound[rows] = self._error_of_rising(x[rows], y[rows])
        return bound

    def _error_of_rising(self, x: Array, y: Array) -> Array:
        """Return the error bound for each element of `y`.

        `_rising` made the input rows `x`, and `y` has their results."""
        # Besides 2·ULPS·u it has u for each stair, and up to u for each other element, whose whole weight may be lost
        # in the sum. It also has 2·|x|·u for the element itself and for the lowest stair, see `error`. If the result is
        # less than twice the smallest normal number, the bound is the result, because the exponential or the quotient
        # may be flushed to zero.
        import numpy as np

        from dispatchflow.operations._numeric import ULPS
        from dispatchflow.operations._range import exponents

        element, (stairs, power) = self.signature.accumulator, self._stairs
        smallest = 2.0 ** exponents(element)[0]
        lost = np.minimum(y / element.unit, x <= -self._nearest).sum(axis=1, keepdims=True)
        own = (2 * ULPS + stairs + lost + 2 * power * np.log(stairs) - 2 * x) * element.unit
        bound: Array = y * np.where(y < 2 * smallest, 1.0, np.minimum(own, y.max(axis=1, keepdims=True) / 4))
        return bound

    def flops(self) -> int:
        """Each element counts as five flops: maximum, difference, exponential, sum, quotient."""
        return 5 * self.sizes[0] * self.sizes[1]
