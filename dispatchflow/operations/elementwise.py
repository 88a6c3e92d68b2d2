"""z[m,n] = f(x[m,n]) or f(x[m,n], y[m,n])"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dispatchflow.operations import _mlir
from dispatchflow.operations._base import Operand, Operation, Option
from dispatchflow.types import ElementType, Signature, TensorType, signature

if TYPE_CHECKING:
    from dispatchflow.operations._base import Array
    from dispatchflow.providers import Library

_BINARY = ("add", "sub", "mul", "max")
# kind → (lines that make %z of %x, operations of one element); a line's op is of `arith` unless it says `math`
_UNARY = {
    "relu": (["z = max x zero"], 1),
    "exp": (["z = math.exp x"], 1),
    "tanh": (["z = math.tanh x"], 1),
    "sigmoid": (["n = sub zero x", "e = math.exp n", "d = add e one", "z = div one d"], 4),
    "silu": (["n = sub zero x", "e = math.exp n", "d = add e one", "z = div x d"], 4),
    "gelu": (["s = mul x root_half", "e = math.erf s", "d = add e one", "h = mul x half", "z = mul h d"], 5),
}
# library → kind → its call
_CALLS = {
    "both": {"add": "x0 + x1", "sub": "x0 - x1", "mul": "x0 * x1"},
    "numpy": {
        "max": "np.maximum(x0, x1)",
        "relu": "np.maximum(x0, 0)",
        "exp": "np.exp(x0)",
        "tanh": "np.tanh(x0)",
        "sigmoid": "1 / (1 + np.exp(-x0))",
        "silu": "x0 / (1 + np.exp(-x0))",
    },
    "torch": {
        "max": "torch.maximum(x0, x1)",
        "relu": "torch.relu(x0)",
        "exp": "torch.exp(x0)",
        "tanh": "torch.tanh(x0)",
        "sigmoid": "torch.sigmoid(x0)",
        "silu": "F.silu(x0)",
        "gelu": "F.gelu(x0)",
    },
}
_CONSTANTS = {"zero": "0.0", "one": "1.0", "half": "0.5", "root_half": "0.70710678118654752"}


class Elementwise(Operation):
    """One function of each element, or of two. `gelu` is the one with the error function."""

    name: ClassVar[str] = "elementwise"
    dims: ClassVar[tuple[str, ...]] = ("m", "n")
    signatures: ClassVar[Mapping[str, Signature]] = {
        word: signature(f"{word}->{word}") for word in ("f32", "f16", "f64", "i32")
    }
    options: ClassVar[Mapping[str, Option]] = {"kind": Option((*_BINARY, *_UNARY), "what is computed")}
    library_options: ClassVar[tuple[str, ...]] = ("kind",)

    @property
    def _kind(self) -> str:
        return str(self.option("kind"))

    @property
    def _curved(self) -> bool:
        """Not a single operation of arithmetic."""
        return self._kind not in (*_BINARY, "relu")

    def illegal(self, backend: str) -> str | None:
        element = self.signature.result
        if self._curved and not element.is_float:
            return f"{self._kind} of integers is not defined"
        if self._curved and element is ElementType.F64:
            return f"IREE has no {self._kind} of f64 (3.13: it calls the mathematical library, which is not linked)"
        return None

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
        lines = [f"z = {self._kind} x y"] if self._kind in _BINARY else _UNARY[self._kind][0]
        words = {word for line in lines for word in line.split()}
        text = "".join(
            f"    %{name} = arith.constant {_literal(value, z.element)} : {z.element.mlir} loc(unknown)\n"
            for name, value in _CONSTANTS.items()
            if name in words
        )
        inputs = {f"arg{i}": operand.type for i, operand in enumerate(self.operands())}
        maps, names = _mlir.affine("mn", *["mn"] * (len(inputs) + 1)), ("x", "y")[: len(inputs)]
        work = [*(_line(line, z.element) for line in lines), "z"]
        text += _mlir.empty("empty", z)
        text += _mlir.generic("all", maps, "pp", inputs, ("empty", z), (*names, "unused"), work)
        return text + _mlir.returned("all", z)

    def reference(self, operands: Sequence[Array]) -> Array:
        import numpy as np

        x = operands[0]
        functions: Mapping[str, Any] = {
            "add": lambda: x + operands[1],
            "sub": lambda: x - operands[1],
            "mul": lambda: x * operands[1],
            "max": lambda: np.maximum(x, operands[1]),
            "relu": lambda: np.maximum(x, 0),
            "exp": lambda: np.exp(x),
            "tanh": lambda: np.tanh(x),
            "sigmoid": lambda: 1 / (1 + np.exp(-x)),
            "silu": lambda: x / (1 + np.exp(-x)),
            "gelu": lambda: x * 0.5 * (1 + np.vectorize(math.erf, otypes=[np.float64])(x * 0.5**0.5)),
        }
        found: Array = functions[self._kind]()
        return found

    def error(self, operands: Sequence[Array]) -> Array:
        """One rounding of a single operation, else that of its function and of the three around it. Relative to the
        result; of gelu to x, as 1 + erf cancels where x is negative."""
        from dispatchflow.operations._numeric import ULPS

        scale = abs(operands[0] if self._kind == "gelu" else self.reference(operands))
        return scale * (ULPS + 3 if self._curved else 1) * self.signature.accumulator.unit

    def library_lacks(self, library: Library) -> str | None:
        if library.name == "numpy" and self._kind == "gelu":
            return "numpy has no error function"
        return Operation.library_lacks(self, library)

    def library_call(self, library: Library) -> str:
        return _CALLS[library.name].get(self._kind) or _CALLS["both"][self._kind]

    def flops(self) -> int:
        """One for each operation of the formula, transcendental ones too."""
        each = 1 if self._kind in _BINARY else _UNARY[self._kind][1]
        return each * self.sizes[0] * self.sizes[1]


def _line(line: str, element: ElementType) -> str:
    result, _, op, *operands = line.split()
    full = op if op.startswith("math.") else _mlir.arith(op, element)
    return f"%{result} = {full} {', '.join(f'%{operand}' for operand in operands)} : {element.mlir}"


def _literal(value: str, element: ElementType) -> str:
    return value if element.is_float else str(int(float(value)))
