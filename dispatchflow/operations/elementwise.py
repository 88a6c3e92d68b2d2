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
    """A function of each element of a matrix, or of two elements at the same place in two matrices.

    The function `gelu` is computed with the error function (erf)."""

    name: ClassVar[str] = "elementwise"
    dims: ClassVar[tuple[str, ...]] = ("m", "n")
    signatures: ClassVar[Mapping[str, Signature]] = {
        word: signature(f"{word}->{word}") for word in ("f32", "f16", "f64", "i32")
    }
    options: ClassVar[Mapping[str, Option]] = {
        "kind": Option((*_BINARY, *_functions.UNARY), "the function or reduction")
    }
    library_options: ClassVar[tuple[str, ...]] = ("kind",)

    @property
    def _kind(self) -> str:
        return str(self.option("kind"))

    @property
    def _curved(self) -> bool:
        """True if the function is none of add, sub, mul, max and relu."""
        return self._kind not in (*_BINARY, "relu")

    def illegal(self, backend: str) -> str | None:
        return _functions.illegal(self._kind, self.signature.result) if self._curved else None

    @property
    def parallel(self) -> tuple[str, ...]:
        return self.dims

    @property
    def recipes(self) -> tuple[str, ...]:
        return ("far" if self._curved else "exact", "random")

    def compares_bits(self, recipe: str) -> bool:
        return not self._curved and super().compares_bits(recipe)

    def made(self, recipe: str) -> list[Array] | None:
        """Return the inputs that a recipe makes for verification (docs/verification.md).

        Returns None if the module `verification.inputs` makes the inputs."""
        # `exact`: integers of magnitude 1 to 15 with both signs. Floating-point numbers are multiplied by powers of two
        # over the type's range, so that a clamp or a flush to 0 changes the result. The two operands of one result are
        # multiplied by the same power. For `mul`, only one of the two is multiplied: the first and the second
        # alternately. For sums and products of integers this method returns None, because `verification.inputs` makes
        # their operands.
        #
        # For `relu` and `max`, the signs in `exact` depend on the signs in `random`, so that an element that is read as
        # 0 changes a result of one of these recipes. Each argument of `relu` has the opposite of its sign in `random`,
        # so that it is positive in one recipe. For `max`, see `_maxima.pairs`.
        #
        # `far`: arguments of functions such as `exp`, over all exponents of the type; see `_functions.far`. Each
        # argument has the opposite of its sign in `random`.
        import numpy as np

        from dispatchflow.operations import _maxima
        from dispatchflow.operations._random import below, negative, stream
        from dispatchflow.operations._range import exponents, powers

        element, size = self.signature.operands[0], self.sizes[0] * self.sizes[1]
        if self._kind == "max":
            return [values.reshape(self.sizes) for values in _maxima.pairs(recipe, element, size)]
        relu = self._kind == "relu"
        if recipe == "exact" and (element.is_float or relu):
            room = 7 if self._kind == "mul" else 4  # 15 · 15 < 2 ** 8, 15 + 15 < 2 ** 5
            least, most = exponents(element) if element.is_float else (0, room)
            power, made = powers((size,), (0,), (least, most - room)), []
            for index in range(len(self.operands())):
                raw = stream(index, 0, size)
                numbers = 1.0 + below(raw, 15)
                below_0 = ~negative(stream(0, 1, size), element) if relu else raw & np.uint64(1) == 0
                numbers *= 1 - 2 * below_0.astype(np.int8)
                turn = slice(index, None, 2) if self._kind == "mul" else slice(None)
                numbers[turn] *= power[turn]
                made.append(numbers.reshape(self.sizes))
            return made
        if recipe == "far":
            signs = 2.0 * negative(stream(0, 1, size), element) - 1
            return [_functions.far(self._kind, element, stream(0, 0, size), signs).reshape(self.sizes)]
        return None

    @property
    def bitwise(self) -> bool:
        """True if the function rounds at most once, because then only one result is correct."""
        return not self._curved

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
        """Return a bound on the error of each result.

        For an arithmetic operation, the bound is the error of one rounding. For any other function, the bound is
        `_functions.error_of`. If a kernel may flush the function's result to 0, the smallest normal number is added."""
        y, element = self.reference(operands), self.signature.accumulator
        if not self._curved:
            return abs(y) * element.unit
        smallest = {16: 2.0**-14, 32: 2.0**-126, 64: 2.0**-1022}[self.signature.result.bits]
        bound: Array = _functions.error_of(self._kind, operands[0], y, element)
        bound += smallest * (abs(y) < smallest + bound)
        return bound

    def library_lacks(self, library: Library) -> str | None:
        why = None if self._kind in _BINARY else _functions.library_lacks(library, self._kind)
        return why or Operation.library_lacks(self, library)

    def library_call(self, library: Library) -> str:
        if self._kind not in _BINARY:
            return _functions.library_call(library, self._kind, "x0")
        return _OPERATORS.get(self._kind) or _MAXIMA[library.name]

    def flops(self) -> int:
        """Each operation of the formula counts as one flop, also a transcendental one such as `exp`."""
        each = 1 if self._kind in _BINARY else _functions.UNARY[self._kind][1]
        return each * self.sizes[0] * self.sizes[1]
