"""The base class of products of matrices and vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import zip_longest
from math import prod
from typing import ClassVar

from dispatchflow.operations._epilogue import ACCUMULATE, Summed
from dispatchflow.operations.api import (
    Array,
    Library,
    Loop,
    Operand,
    Operation,
    Option,
    Release,
    Signature,
    TensorType,
    signature,
    snippets,
)

FLOATS = {
    "f32": signature("f32,f32->f32"),
    "f16": signature("f16,f16->f16"),
    "f16_f32": signature("f16,f16->f32"),
    "f16_f32_f16": signature("f16,f16->f32->f16"),
    "bf16": signature("bf16,bf16->f32"),
    "bf16_f32_bf16": signature("bf16,bf16->f32->bf16"),
}


ZERO_POINTS = {
    "input_zp": Option(
        range(-128, 128), "zero point of the first operand (the integer that stands for 0); default -128"
    ),
    "weight_zp": Option(range(-128, 128), "zero point of the second operand", usual=0),
}
"""The options for zero points, which are the integers that stand for 0.

Zero points are constants of the module, as in TOSA. The defaults are those of TensorFlow Lite's 8-bit scheme: -128 for
an activation after a relu, 0 for symmetric weights."""


def zero_points(operation: Operation) -> tuple[int, ...]:
    """Return the zero points of the two factors; () if the operation is not quantized."""
    return tuple(operation.option(word) for word in ZERO_POINTS if word in operation.options)


def library_centered(operation: Operation, names: Sequence[str]) -> list[str]:
    """Return, for each operand's name, a Python expression that subtracts the zero point from the operand.

    For `x0` and the zero point -128, the expression is `(x0 + 128)`. Without a zero point, it is `x0`."""
    points = zip_longest(names, zero_points(operation), fillvalue=0)
    return [f"({name} {'+' if point < 0 else '-'} {abs(point)})" if point else str(name) for name, point in points]


def dynamic(*dims: str) -> Option:
    """Return the option `dynamic`, which names the dims whose sizes are unknown at compile time.

    Its values are `no` and the strings in `dims`. Each letter of a string is a dim: with `mn`, the sizes of `m` and `n`
    are unknown."""
    return Option(("no", *dims), "dims whose sizes are unknown at compile time, one letter each: `?` in the module")


def _others(dims: str) -> tuple[int, ...]:
    return tuple(axis for axis, dim in enumerate(dims) if dim != "k")


class Contraction(Summed):
    """A matrix or vector product: a named op of linalg that sums over `k`.

    The last two dims of a column-major operand are swapped in memory."""

    multiplies: ClassVar[bool] = True
    lhs: ClassVar[str]
    rhs: ClassVar[str]
    out: ClassVar[str]
    """The dims of the result, one letter each, in row-major order: `mn` for a matmul.

    In the same way, `lhs` and `rhs` have the dims of the left and of the right factor: `mk` and `kn` for a matmul."""
    signatures: ClassVar[Mapping[str, Signature]] = {
        **FLOATS,
        "bf16_bf16": signature("bf16,bf16->bf16"),
        "i8": signature("i8,i8->i32"),
        "f64": signature("f64,f64->f64"),
    }
    options: ClassVar[Mapping[str, Option]] = {"accumulate": ACCUMULATE}
    library_options: ClassVar[tuple[str, ...]] = ("accumulate", "dynamic", "epilogue")
    """The options that may be used when a library (numpy or PyTorch) computes the product.

    `dynamic` is one of them, because a library takes all sizes from its operands."""

    @property
    def channel_axis(self) -> int:
        return self.out.index("n")

    @property
    def parallel(self) -> tuple[str, ...]:
        return tuple(self.out)

    @cached_property
    def dynamic_dims(self) -> tuple[str, ...]:
        words = self.option("dynamic") if "dynamic" in self.options else "no"
        return () if words == "no" else tuple(words)

    def _stored(self) -> tuple[str, str]:
        """Return the dims of each factor, as letters in the order in which the dims are in memory.

        For a matmul with the layout `tn` (B is column-major), the result is ("mk", "nk")."""
        lhs, rhs = (
            dims if letter == "t" else dims[:-2] + dims[:-3:-1]
            for dims, letter in zip((self.lhs, self.rhs), self.layout, strict=True)
        )
        return lhs, rhs

    def _tensor(self, dims: str, index: int) -> TensorType:
        sizes = dict(zip(self.dims, self.sizes, strict=True))
        types = self.types
        elements = (*types.operands, types.accumulator, types.result)
        named = tuple(dim if dim in self.dynamic_dims else "" for dim in dims)
        return TensorType(tuple(sizes[dim] for dim in dims), elements[index], named if any(named) else ())

    def illegal(self, backend: str) -> str | None:
        for tensor in (*(operand.type for operand in self.operands()[:2]), self.result()):
            if tensor.size * tensor.element.bits % 8:
                return f"{tensor.spelling} does not fill a whole number of bytes"
        return super().illegal(backend)

    def operands(self) -> tuple[Operand, ...]:
        return self._operands

    @cached_property
    def _operands(self) -> tuple[Operand, ...]:
        lhs, rhs = self._stored()
        left, right = lhs.index("k"), rhs.index("k")
        factors = (
            Operand(self._tensor(lhs, 0), summed=(left,), shared=left, lines=_others(lhs)),
            Operand(self._tensor(rhs, 1), shared=right, crossed=(right,), lines=_others(rhs)),
        )
        added = (Operand(self._tensor(self.out, 2)),) if self.accumulates else ()
        return (*factors, *added, *self.parameters())

    def result(self) -> TensorType:
        return self._result

    @cached_property
    def _result(self) -> TensorType:
        return self._tensor(self.out, 3)

    def body(self, attribute: str) -> str:
        # A named op reads all integers as signed, or all as unsigned.
        mixed = any(element.is_unsigned for element in self.signature.operands)
        op = self._generic(attribute) if mixed else self._named(attribute)
        return self._filled() + op + self.finished(self._total)

    def body_for(self, syntax: Release, attribute: str) -> str:
        if self._row_major or syntax.maps_of(self.name):
            return self.body(attribute)
        return self._filled() + self._generic(attribute) + self.finished(self._total)

    @property
    def _row_major(self) -> bool:
        return set(self.layout) == {"t"}

    @cached_property
    def _total(self) -> TensorType:
        return self._tensor(self.out, 2)

    def _filled(self) -> str:
        return self._sizes() + ("" if self.accumulates else snippets.filled(self._total, self._total.element.zero))

    def _maps(self) -> tuple[str, list[str]]:
        """Return the loop dims, such as `mnk`, and the affine maps of both factors and of the result.

        The map of a factor has the factor's dims in the order in which they are in memory."""
        dims = "".join(loop.dim for loop in self.loops)
        return dims, snippets.affine(dims, *self._stored(), self.out)

    def _named(self, attribute: str) -> str:
        a, b = (operand.type.mlir for operand in self.operands()[:2])
        c = self._total.mlir
        maps = "" if self._row_major else f"indexing_maps = [{', '.join(self._maps()[1])}] "
        names, values, constants = snippets.scalars(zero_points(self), self._total.element)
        ins = f"ins(%arg0, %arg1{names} : {a}, {b}{values})"
        return f"""\
{constants}\
    %sum = linalg.{self.name} {maps}{attribute}{ins} outs(%{self.init} : {c}) -> {c} loc(unknown)
"""

    def _generic(self, attribute: str) -> str:
        """Return the text of a `linalg.generic` that computes the product; zero points are not supported."""
        dims, maps = self._maps()
        inputs = {f"arg{i}": operand.type for i, operand in enumerate(self.operands()[:2])}
        # The names cannot be `a` and `b`, because `%b` is the size of the dim `b` if it is dynamic.
        names = ("left", "right")
        lines = snippets.multiplied(dict(zip(names, inputs.values(), strict=True)), self._total.element)
        iterators, out = "p" * (len(dims) - 1) + "r", (self.init, self._total)
        return snippets.generic("sum", maps, iterators, inputs, out, (*names, "so_far"), lines, attribute)

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        loops = [Loop(dim, size, dim == "k") for dim, size in zip(self.dims, self.sizes, strict=True)]
        return tuple(sorted(loops, key=lambda loop: loop.summed))

    def _sizes(self) -> str:
        """Return ops that define each dynamic size of the result as an SSA value.

        The value has the name of the size's dim, such as `%m`."""
        text = ""
        for dim in self.dynamic_dims:
            index, stored = next((i, dims) for i, dims in enumerate(self._stored()) if dim in dims)
            if dim in self.out:
                text += snippets.size(dim, f"arg{index}", self.operands()[index].type, stored.index(dim))
        return text

    def reference(self, operands: Sequence[Array]) -> Array:
        from dispatchflow.operations import _numeric

        lhs, rhs = (
            array if letter == "t" else array.swapaxes(-1, -2)
            for array, letter in zip(operands[:2], self.layout, strict=True)
        )
        return self.applied(_numeric.product(lhs, rhs) + (operands[2] if self.accumulates else 0), operands)

    def library_call(self, library: Library) -> str:
        names = library_centered(self, library.operands(self.library_types, 2 + self.accumulates))
        turned = [
            name if letter == "t" else f"{name}.swapaxes(-1, -2)"
            for name, letter in zip(names[:2], self.layout, strict=True)
        ]
        total = " @ ".join(turned) + (f" + {names[2]}" if self.accumulates else "")
        return self.library_finished(library, total)

    def flops(self) -> int:
        return 2 * prod(self.sizes) + self.epilogue_flops()
