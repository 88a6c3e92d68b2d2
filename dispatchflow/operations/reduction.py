"""y[m] = Σ_k x[m,k] (inner), y[k] = Σ_m x[m,k] (outer) or y = Σ_{m,k} x[m,k] (all); or max instead of Σ"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

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

# value of `axis` → (the result's dims, the iterators of m and k, the axes that are reduced)
_AXES = {"inner": ("m", "pr", (1,)), "outer": ("k", "rp", (0,)), "all": ("", "rr", (0, 1))}


class Reduction(Operation):
    """Reduction of each row of a row-major matrix (`inner`), of each column (`outer`) or of all elements."""

    name: ClassVar[str] = "reduction"
    dims: ClassVar[tuple[str, ...]] = ("m", "k")
    signatures: ClassVar[Mapping[str, Signature]] = {
        "f32": signature("f32->f32"),
        "f16": signature("f16->f16"),
        "f16_f32": signature("f16->f32"),
        "bf16": signature("bf16->f32"),
        "f64": signature("f64->f64"),
        "i8": signature("i8->i32"),
        "i32": signature("i32->i32"),
    }
    options: ClassVar[Mapping[str, Option]] = {
        "kind": Option(("sum", "max"), "the function or reduction"),
        "axis": Option(
            tuple(_AXES), "what is reduced: each row (`inner`), each column (`outer`) or all elements (`all`)"
        ),
    }
    factors: ClassVar[int] = 1
    library_options: ClassVar[tuple[str, ...]] = ("kind", "axis")

    @property
    def bitwise(self) -> bool:
        return self.option("kind") == "max" or not self.signature.result.is_float

    @property
    def has_wide(self) -> bool:
        return self.option("kind") == "sum" and self.signature.accumulator.is_float

    def made(self, recipe: str) -> list[Array] | None:
        """Return the inputs of the recipes `exact` and `random` for `kind=max`; return None for `kind=sum`.

        A recipe is a way to make inputs for verification."""
        # In each line, one element is larger than all others (see `_maxima`).
        #
        # `exact`: the other elements of a line are equal, and negative. For integers the larger element is higher by 1;
        # for floats it differs only in the last digit of the type. A kernel that begins a maximum with 0, or pads with
        # 0, gives too large results. Every third line has the type's lowest number as its other elements, and the next
        # higher number as its larger element. There, a maximum that begins with any higher number is wrong.
        if self.option("kind") == "sum":
            return None
        import numpy as np

        from dispatchflow.operations import _maxima
        from dispatchflow.operations._random import stream
        from dispatchflow.operations._range import are_lowered, lowered

        element = self.signature.operands[0]
        x = np.empty(self.sizes)
        lines = {"inner": x, "outer": x.T, "all": x.reshape(1, x.size)}[self.option("axis")]
        if recipe == "random":
            lines[:] = _maxima.falling(stream(0, 1, x.size).reshape(lines.shape), element)
            return [x]
        line = np.arange(len(lines))
        # Neighboring lines have different results. Floats are between -4 and -2, where all neighboring numbers of the
        # type have the same distance. The lines that become the lowest ones have the lowest level. 31 and
        # `_maxima.LEVELS` have no common divisor: most lines that have equal results here differ in `random`.
        level = np.where(are_lowered(line), 31, 1 + line % 31)
        others, step = (-2 - level / 16, 2.0 ** (2 - element.digits)) if element.is_float else (-1.0 - level, 1.0)
        lines[:] = others[:, None]
        lines[line, _maxima.places(len(lines), lines.shape[1], forward=True)] = others + step
        line_axes = {"inner": (0,), "outer": (1,), "all": ()}[self.option("axis")]
        return [lowered(x, line_axes, element, step)]

    @property
    def parallel(self) -> tuple[str, ...]:
        return {"inner": ("m",), "outer": ("k",), "all": ()}[self.option("axis")]

    def operands(self) -> tuple[Operand, ...]:
        summed = _AXES[self.option("axis")][2] if self.option("kind") == "sum" else ()
        lines = tuple({0, 1} - set(summed)) if summed else ()
        return (Operand(TensorType(self.sizes, self.signature.operands[0]), summed, lines=lines),)

    def result(self) -> TensorType:
        sizes = dict(zip(self.dims, self.sizes, strict=True))
        return TensorType(tuple(sizes[dim] for dim in _AXES[self.option("axis")][0]), self.signature.result)

    def body(self, attribute: str) -> str:
        x, y = self.operands()[0].type, self.result()
        out, iterators, _ = _AXES[self.option("axis")]
        wide, value = snippets.widened("wide", "x", x.element, y.element)
        largest = self.option("kind") == "max"
        op = snippets.arith("max" if largest else "add", y.element)
        lines = [*wide, f"%next = {op} %so_far, %{value} : {y.element.mlir}", "next"]
        maps = snippets.affine("mk", "mk", out)
        text = snippets.filled(y, snippets.lowest(y.element) if largest else y.element.zero)
        text += snippets.generic("all", maps, iterators, {"arg0": x}, ("init", y), ("x", "so_far"), lines)
        return text + snippets.returned("all", y)

    def reference(self, operands: Sequence[Array]) -> Array:
        axes = _AXES[self.option("axis")][2]
        found: Array = operands[0].max(axis=axes) if self.option("kind") == "max" else operands[0].sum(axis=axes)
        return found

    def library_call(self, library: Library) -> str:
        axes, types = _AXES[self.option("axis")][2], self.signature
        (x,) = library.operands(types, 1)
        if self.option("kind") == "sum":
            module = {"numpy": "np", "torch": "torch"}[library.name]
            return f"{x}.sum({axes}, dtype={module}.{types.result.numpy_name})"
        return f"{x}.{'amax' if library.name == 'torch' else 'max'}({axes})"

    def flops(self) -> int:
        """Each element counts as one flop."""
        return self.sizes[0] * self.sizes[1]
