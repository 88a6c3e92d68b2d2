"""Epilogues: functions that a dispatch applies to each element of its result before the store."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from dispatchflow.operations import _functions
from dispatchflow.operations.api import (
    Array,
    ElementType,
    Library,
    Operand,
    Operation,
    Option,
    Signature,
    TensorType,
    snippets,
)

EPILOGUE = Option(
    ("none", "bias", "bias+relu", "bias+gelu", "residual", "scale", "cast"),
    "function applied to each element of the result before it is stored, in the same dispatch: `bias` and `scale` have "
    "an operand with one value per column or channel, `residual` has one of the result's shape, `cast` converts to the "
    "operands' type",
)
ACCUMULATE = Option(("no", "yes"), "whether the sum begins with an operand instead of zero")
# word → lines that compute %z from the sum %t and the operand %p; a word with `+` computes %x, the function's argument
_LINES = {
    "bias": ["z = add t p"],
    "bias+relu": ["x = add t p"],
    "bias+gelu": ["x = add t p"],
    "residual": ["z = add t p"],
    "scale": ["z = mul t p"],
    "cast": [],
}


class Summed(Operation):
    """An operation that sums in the accumulator's type, and rounds to the result's type.

    The option `epilogue` adds a computation in the accumulator's type, before the rounding."""

    @property
    @abstractmethod
    def channel_axis(self) -> int:
        """The result's channel axis: a bias or scale has one element for each index along it."""

    @property
    def accumulates(self) -> bool:
        """True if the sum begins with the third operand, and not with 0."""
        return bool("accumulate" in self.options and self.option("accumulate") == "yes")

    @property
    def init(self) -> str:
        """The name of the SSA value with which the sum begins."""
        return "arg2" if self.accumulates else "init"

    @property
    def epilogue(self) -> str:
        return str(self.option("epilogue")) if "epilogue" in self.options else "none"

    @property
    def _function(self) -> str | None:
        """The epilogue's relu or gelu, such as `relu` in `bias+relu`; None if the epilogue has neither."""
        return self.epilogue.partition("+")[2] or None

    @cached_property
    def types(self) -> Signature:
        given = self.signature
        return Signature(given.operands, given.accumulator, given.operands[0]) if self.epilogue == "cast" else given

    @property
    def dispatches(self) -> int | None:
        return None if self.epilogue == "none" else 1

    def illegal(self, backend: str) -> str | None:
        if self.accumulates and self.types.accumulator is not self.types.result:
            return "accumulate=yes needs a result of the accumulator's type"
        if self.epilogue == "cast" and self.types.result is self.signature.result:
            return f"there is nothing to cast: result and operands are {self.types.result.mlir}"
        why = self._function and _functions.illegal(self._function, self.signature.accumulator)
        return why or super().illegal(backend)

    @property
    def _goes_on(self) -> bool:
        """True if an epilogue or a conversion follows the sum."""
        return self.epilogue != "none" or self.types.accumulator is not self.types.result

    @property
    def clips(self) -> bool:
        return self._function is not None

    def compares_bits(self, recipe: str) -> bool:
        return self._function != "gelu" and super().compares_bits(recipe)

    @property
    def factors(self) -> int:
        return 3 if self.epilogue == "scale" else 2

    @property
    def addends(self) -> int:
        return int(self.accumulates) + int(_adds(self.epilogue))

    def parameters(self) -> tuple[Operand, ...]:
        """Return a tuple with the operand that the epilogue reads, or an empty tuple if it reads none.

        This operand is the last operand of the operation, and has the result's element type."""
        if self.epilogue in ("none", "cast"):
            return ()
        result, axis = self.result(), self.channel_axis
        if self.epilogue == "residual":
            return (Operand(result),)
        named = result.dynamic[axis : axis + 1]
        tensor = TensorType((result.shape[axis],), result.element, named if any(named) else ())
        return (Operand(tensor, lines=(0,) if self.epilogue == "scale" else ()),)

    def finished(self, total: TensorType) -> str:
        """Return the ops after `%sum`: the epilogue, the conversion to the result's type and `return`.

        `total` is the type of `%sum`, with the accumulator's element type."""
        result, words = self.result(), self.epilogue
        if words == "none" and total == result:
            return snippets.returned("sum", total)
        if words == "none":
            return snippets.narrowed("sum", total, result) + snippets.returned("out", result)
        dims = "mnopqrst"[: len(total.shape)]
        parameters = {f"arg{len(self.operands()) - 1}": operand.type for operand in self.parameters()}
        widened, _ = snippets.widened("p", "narrow", result.element, total.element)
        lines = [*_LINES[words], *(_functions.UNARY[self._function][0] if self._function else ())]
        work = [*(widened if parameters else ()), *(_functions.spelt(line, total.element) for line in lines)]
        made = "z" if lines else "t"
        if total.element is not result.element:
            truncated = f"arith.trunc{'f' if result.element.is_float else 'i'}"
            work.append(f"%y = {truncated} %{made} : {total.element.mlir} to {result.element.signless}")
            made = "y"
        maps = snippets.affine(
            dims, dims, *(dims if words == "residual" else dims[self.channel_axis] for _ in parameters), dims
        )
        arguments = ("t", *["narrow" if widened else "p"][: len(parameters)], "unused")
        text = _functions.constants(lines, total.element) + snippets.empty("slot", result)
        inputs, slot = {"sum": total, **parameters}, ("slot", result)
        text += snippets.generic("out", maps, "p" * len(dims), inputs, slot, arguments, [*work, made])
        return text + snippets.returned("out", result)

    @property
    def library_types(self) -> Signature:
        """The element types with which a library (numpy or PyTorch) computes the sum, before the epilogue.

        If the epilogue reads an operand, the sum keeps the accumulator's type, and only the epilogue's result is
        rounded. Otherwise the sum is rounded to the result's type."""
        types = self.types
        return Signature(types.operands, types.accumulator, types.accumulator) if self.parameters() else types

    def library_lacks(self, library: Library) -> str | None:
        if library.name == "numpy" and self.signature.accumulator is ElementType.BF16:
            return "numpy has no sums in bf16"
        why = self._function and _functions.library_lacks(library, self._function)
        return why or super().library_lacks(library)

    def library_finished(self, library: Library, total: str) -> str:
        """Return a Python expression for the operation's result.

        `total` is the expression for the sum before the epilogue."""
        types = self.types
        if not self.parameters():
            return library.rounded(total, types)
        parameter = f"x{len(self.operands()) - 1}"
        if types.result is not types.accumulator:
            parameter = library.cast(parameter, types.accumulator)
        if self.epilogue != "residual":
            sides = (-1 if axis == self.channel_axis else 1 for axis in range(len(self.result().shape)))
            parameter += f".reshape({', '.join(map(str, sides))})"
        value = f"({total}) {'*' if self.epilogue == 'scale' else '+'} {parameter}"
        if self._function:
            value = _functions.library_call(library, self._function, value)
        return value if types.result is types.accumulator else library.cast(f"({value})", types.result)

    def applied(self, total: Array, operands: Sequence[Array]) -> Array:
        """Apply the epilogue to `total`, the sums that the numpy reference has computed."""
        from dispatchflow.operations import _numeric

        if not self.parameters():
            return total
        found = self._joined(total, self._spread(operands[-1]))
        if self._function:
            # Wrap before the function, as the accumulator does: the function is not linear, so the order matters.
            found = _functions.function(self._function)(_numeric.wrapped(found, self.types.accumulator))
        return found

    def _joined(self, total: Array, parameter: Array) -> Array:
        joined: Array = total * parameter if self.epilogue == "scale" else total + parameter
        return joined

    def _spread(self, parameter: Array) -> Array:
        """Return the epilogue's operand reshaped to the rank of the result, for broadcasting."""
        if self.epilogue == "residual":
            return parameter
        rank = len(self.result().shape)
        return parameter.reshape([-1 if axis == self.channel_axis else 1 for axis in range(rank)])

    def error(self, operands: Sequence[Array]) -> Array:
        """Return a bound on each element's error: the error bound of the sum, propagated through the epilogue.

        An addition or a scaling in the epilogue adds one rounding error. A relu does not increase an error."""
        if not self.parameters():
            return super().error(operands)
        unit, parameter = self.types.accumulator.unit, self._spread(operands[-1])
        plain = self._plain
        joined, off = self._joined(plain.reference(operands[:-1]), parameter), plain.error(operands[:-1])
        off = off * abs(parameter) if self.epilogue == "scale" else off
        off = off + unit * (abs(joined) + off)
        return _functions.gelu_error(joined, off, unit) if self._function == "gelu" else off

    def error_on(self, recipe: str, operands: Sequence[Array]) -> Array:
        """Return an error bound for each element of the result.

        `recipe` is the way in which `operands` were made, such as `random`."""
        # All recipes except `random` have exact sums: only the gelu then has an error.
        if recipe == "random" or self._function != "gelu":
            return self.error(operands)
        joined = self._joined(self._plain.reference(operands[:-1]), self._spread(operands[-1]))
        return _functions.gelu_error(joined, 0 * joined, self.types.accumulator.unit)

    @property
    def _plain(self) -> Summed:
        """The same operation without its epilogue."""
        index = tuple(self.options).index("epilogue")
        return replace(self, chosen=(*self.chosen[:index], "none", *self.chosen[index + 1 :]))

    def epilogue_flops(self) -> int:
        """Return the epilogue's flops: its operations for one element, times the number of result elements.

        Conversions of the element type do not count as operations."""
        if self.epilogue in ("none", "cast"):
            return 0
        each = 1 + (_functions.UNARY[self._function][1] if self._function else 0)
        return each * self.result().size


def _adds(epilogue: str) -> bool:
    return epilogue.startswith("bias") or epilogue == "residual"
