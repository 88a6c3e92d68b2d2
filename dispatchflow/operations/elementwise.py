"""z[m,n] = f(x[m,n]) or f(x[m,n], y[m,n])"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from dispatchflow.operations import _functions
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

_BINARY = ("add", "sub", "mul", "max")
_OPERATORS = {"add": "x0 + x1", "sub": "x0 - x1", "mul": "x0 * x1"}
_MAXIMA = {"numpy": "np.maximum(x0, x1)", "torch": "torch.maximum(x0, x1)"}


class Elementwise(Operation):
    """One function of each element, or of two. `gelu` is the one with the error function."""

    name: ClassVar[str] = "elementwise"
    dims: ClassVar[tuple[str, ...]] = ("m", "n")
    signatures: ClassVar[Mapping[str, Signature]] = {
        word: signature(f"{word}->{word}") for word in ("f32", "f16", "f64", "i32")
    }
    options: ClassVar[Mapping[str, Option]] = {"kind": Option((*_BINARY, *_functions.UNARY), "what is computed")}
    library_options: ClassVar[tuple[str, ...]] = ("kind",)

    @property
    def _kind(self) -> str:
        return str(self.option("kind"))

    @property
    def _curved(self) -> bool:
        """Not a single operation of arithmetic."""
        return self._kind not in (*_BINARY, "relu")

    def illegal(self, backend: str) -> str | None:
        return _functions.illegal(self._kind, self.signature.result) if self._curved else None

    @property
    def recipes(self) -> tuple[str, ...]:
        return ("random",) if self._curved else ("exact", "random")

    @property
    def bitwise(self) -> bool:
        return self._kind in ("max", "relu") or not self.signature.result.is_float

    def operands(self) -> tuple[Operand, ...]:
        operand = Operand(TensorType(self.sizes, self.signature.operands[0]), low=-4.0, high=4.0)
        return (operand, operand) if self._kind in _BINARY else (operand,)

    def result(self) -> TensorType:
        return TensorType(self.sizes, self.signature.result)

    def body(self, attribute: str) -> str:
        z = self.result()
        lines = [f"z = {self._kind} x y"] if self._kind in _BINARY else _functions.UNARY[self._kind][0]
        text = _functions.constants(lines, z.element)
        inputs = {f"arg{i}": operand.type for i, operand in enumerate(self.operands())}
        maps, names = snippets.affine("mn", *["mn"] * (len(inputs) + 1)), ("x", "y")[: len(inputs)]
        work = [*(_functions.spelt(line, z.element) for line in lines), "z"]
        text += snippets.empty("empty", z)
        text += snippets.generic("all", maps, "pp", inputs, ("empty", z), (*names, "unused"), work)
        return text + snippets.returned("all", z)

    def reference(self, operands: Sequence[Array]) -> Array:
        import numpy as np

        x = operands[0]
        functions: Mapping[str, Any] = {
            "add": lambda: x + operands[1],
            "sub": lambda: x - operands[1],
            "mul": lambda: x * operands[1],
            "max": lambda: np.maximum(x, operands[1]),
        }
        found: Array = functions[self._kind]() if self._kind in functions else _functions.function(self._kind)(x)
        return found

    def error(self, operands: Sequence[Array]) -> Array:
        """One rounding of a single operation, else that of its function and of the three around it. Relative to the
        result; of gelu to x, as 1 + erf cancels where x is negative."""
        from dispatchflow.operations._numeric import ULPS

        scale = abs(operands[0] if self._kind == "gelu" else self.reference(operands))
        return scale * (ULPS + 3 if self._curved else 1) * self.signature.accumulator.unit

    def library_lacks(self, library: Library) -> str | None:
        why = None if self._kind in _BINARY else _functions.library_lacks(library, self._kind)
        return why or Operation.library_lacks(self, library)

    def library_call(self, library: Library) -> str:
        if self._kind not in _BINARY:
            return _functions.library_call(library, self._kind, "x0")
        return _OPERATORS.get(self._kind) or _MAXIMA[library.name]

    def flops(self) -> int:
        """One for each operation of the formula, transcendental ones too."""
        each = 1 if self._kind in _BINARY else _functions.UNARY[self._kind][1]
        return each * self.sizes[0] * self.sizes[1]
