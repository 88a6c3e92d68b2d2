"""E[m,n] = Σ_l D[m,l] · C[l,n] with D[m,l] = Σ_k A[m,k] · B[k,l]"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from dispatchflow.operations._sums import growth
from dispatchflow.operations.api import Array, Library, Operand, Operation, Signature, TensorType, signature, snippets


class Chain(Operation):
    """Two matrix products, one after the other, in one module.

    The first product is rounded to the result's type before the second product uses it. If both products have the same
    sizes, they are one dispatch that is launched twice."""

    name: ClassVar[str] = "chain"
    dims: ClassVar[tuple[str, ...]] = ("m", "n", "k", "l")
    signatures: ClassVar[Mapping[str, Signature]] = {
        "f32": signature("f32,f32,f32->f32"),
        "f16": signature("f16,f16,f16->f16"),
        "f16_f32_f16": signature("f16,f16,f16->f32->f16"),
        "bf16_f32_bf16": signature("bf16,bf16,bf16->f32->bf16"),
        "f64": signature("f64,f64,f64->f64"),
        "i32": signature("i32,i32,i32->i32"),
    }

    @property
    def parallel(self) -> tuple[str, ...]:
        return ("m", "n")

    def _tensor(self, dims: str, wide: bool = False) -> TensorType:
        sizes = dict(zip(self.dims, self.sizes, strict=True))
        element = self.types.accumulator if wide else self.types.result
        return TensorType(tuple(sizes[dim] for dim in dims), element)

    def operands(self) -> tuple[Operand, ...]:
        return (
            Operand(self._tensor("mk"), summed=(1,), lines=(0,)),
            Operand(self._tensor("kl"), crossed=(0,)),
            Operand(self._tensor("ln"), summed=(0,), lines=(1,)),
        )

    def result(self) -> TensorType:
        return self._tensor("mn")

    @property
    def has_wide(self) -> bool:
        return self.signature.accumulator.is_float

    def made(self, recipe: str) -> list[Array] | None:
        """Return the inputs of the recipe `wide`; None for other recipes.

        With these inputs, a kernel that rounds an operand to a narrower type gives wrong results."""
        # The recipe detects operands that are read with too few digits (docs/verification.md). Each column of the
        # second factor has one nonzero number, and each column of the third factor has four. In each product a · b · c,
        # one number uses its full significand, and the other two are 1 or -1. This number is a for the first index
        # along `k`, b for the second, c for the third, a for the fourth, and so on.
        #
        # If the first product is rounded to a narrower type, half of the columns are changed by `_to_round`.
        if recipe != "wide":
            return None
        import numpy as np

        from dispatchflow.operations._random import full, stream

        _, n, k, l = self.sizes  # noqa: E741
        room = min(self.types.accumulator.digits, self.types.result.digits)
        column, meets = np.arange(l), np.arange(l) % k
        found = []
        for index, operand in enumerate(self.operands()):
            values = full(stream(index, 2, operand.type.size), room - 2).reshape(operand.type.shape)
            turn = (np.arange(k)[None, :], meets[None, :], meets[:, None])[index] % 3 == index
            found.append(np.where(turn, values, np.sign(values)))
        kept = np.zeros((k, l), bool)
        kept[meets, column] = True
        few = (column[:, None] - 4 * np.arange(n)) % l < 4
        first, second, third = found[0], found[1] * kept, found[2] * few
        if self.types.result.digits < self.types.accumulator.digits and k > 2:
            self._to_round(second, third)
        return [first, second, third]

    def _to_round(self, second: Array, third: Array) -> None:
        """Change the factors B and C of (A·B)·C in place, to detect a kernel that truncates A·B."""
        # The last four of eight columns are changed, in pairs. Each changed column gets a second nonzero number. The
        # first product then has x + d in the first column of a pair, and y - d in the second column. The narrower type
        # represents x and y, which in most columns have all its digits; d is less than half of a unit in their last
        # place. Rounding to nearest gives x and y; truncation gives a wrong number for x + d or for y - d.
        #
        # The third factor is changed too: it multiplies both columns of a pair by the same number, so that d cancels.
        # Therefore the reference, which does not round the first product, gives the same sum.
        import numpy as np

        from dispatchflow.operations._random import full, stream

        _, _, k, l = self.sizes  # noqa: E741
        digits = self.types.result.digits
        left = np.array([column for column in range(0, l - 1, 2) if column % 8 > 3], int)
        for column in (left, left + 1):
            values = full(stream(1, 3, l), digits)[column]
            second[column % k, column] = np.where(column % k % 3 == 0, np.sign(values), values)
        second[(left + 2) % k, left] = 2.0 ** -(digits + 2)
        second[(left + 2) % k, left + 1] = -(2.0 ** -(digits + 2))
        both = (third[left] != 0) & (third[left + 1] != 0)
        third[left] = third[left + 1] = np.where(both, third[left], 0)

    def body(self, attribute: str) -> str:
        text, first = self._product("first", "arg0", "arg1", ("mk", "kl", "ml"))
        second, last = self._product("second", first, "arg2", ("ml", "ln", "mn"))
        return text + second + snippets.returned(last, self.result())

    def _product(self, name: str, lhs: str, rhs: str, dims: tuple[str, str, str]) -> tuple[str, str]:
        """Return the MLIR ops of a matrix product, and the name of the value that these ops define.

        `lhs` and `rhs` are the names of the factors. `dims` has the dims of the left factor, of the right factor and of
        the product."""
        a, b, (total, out) = (
            self._tensor(dims[0]),
            self._tensor(dims[1]),
            (self._tensor(dims[2], w) for w in (True, False)),
        )
        ins, c = f"ins(%{lhs}, %{rhs} : {a.mlir}, {b.mlir})", total.mlir
        text = snippets.filled(total, total.element.zero, f"{name}_")
        text += f"    %{name} = linalg.matmul {ins} outs(%{name}_init : {c}) -> {c} loc(unknown)\n"
        if total == out:
            return text, name
        return text + snippets.narrowed(name, total, out, f"{name}_"), f"{name}_out"

    def reference(self, operands: Sequence[Array]) -> Array:
        from dispatchflow.operations._numeric import product

        a, b, c = operands
        return product(product(a, b), c)

    def library_call(self, library: Library) -> str:
        types = self.signature
        a, b, c = library.operands(types, 3)
        exact = f"({a} @ {b})"
        first = library.rounded(exact, types)
        wide = first if first == exact else library.cast(first, types.accumulator)
        return library.rounded(f"{wide} @ {c}", types)

    @property
    def factors(self) -> int:
        return 3

    @property
    def terms(self) -> int:
        return self.sizes[2] * self.sizes[3]

    def error(self, operands: Sequence[Array]) -> Array:
        """Return a bound on the error of each result.

        The result is E = D · C with D = A · B. The bound is the sum of two terms. The first term is the bound on the
        errors of D, times |C|. The second term is a bound on the rounding errors of the sums in D · C."""
        a, b, c = operands
        types, (_, _, k, l) = self.types, self.sizes  # noqa: E741
        first, unit = a @ b, types.accumulator.unit
        off = growth(k) * unit * (abs(a) @ abs(b))
        if types.accumulator is not types.result:
            off = off + types.result.unit * (abs(first) + off)
        bound: Array = off @ abs(c) + growth(l) * unit * ((abs(first) + off) @ abs(c))
        return bound

    def flops(self) -> int:
        """Each term of both products counts as two flops."""
        m, n, k, l = self.sizes  # noqa: E741
        return 2 * m * l * (k + n)
