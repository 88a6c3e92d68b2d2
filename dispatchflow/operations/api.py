"""The base class of operations, and all names that an operation's file may import.

To add an operation, see docs/adding.md. Recipes are ways to make inputs for verification (docs/verification.md)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import msgspec

from dispatchflow.iree.release import Release
from dispatchflow.libraries.providers import Library
from dispatchflow.mlir import snippets
from dispatchflow.mlir.types import ElementType, Layout, Signature, TensorType, signature
from dispatchflow.operations._exact import has_largest, thinnings
from dispatchflow.operations._option import Option as Option
from dispatchflow.operations._sums import growth
from dispatchflow.workload import Workload

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "Array",
    "ElementType",
    "Layout",
    "Library",
    "Loop",
    "Operand",
    "Operation",
    "Option",
    "Release",
    "Signature",
    "TensorType",
    "signature",
    "snippets",
]

Array: TypeAlias = "np.ndarray[Any, Any]"


class Operand(msgspec.Struct, frozen=True):
    """An input tensor of an operation, and facts that verification uses to choose the tensor's elements."""

    type: TensorType
    summed: tuple[int, ...] = ()
    """The reduction axes, such as `k` of A in A·B. Those of the factor B are in its field `crossed`."""
    shared: int | None = None
    """The axis on which both factors of a term have the same index: `k` in A[i, k] · B[k, j]."""
    crossed: tuple[int, ...] = ()
    """The reduction axes of the other factor of a product, such as `k` of B in A·B (see `summed`).

    Verification may use inputs with zeros along `summed` or along `crossed` axes, but never along both at once."""
    lines: tuple[int, ...] = ()
    """The axes whose indices select a line: in A·B, `m` of A (a line is a row) and `n` of B (a column).

    All terms of a result come from one line of each operand. Empty if lines are not used, as for a bias."""
    low: float = -1.0
    high: float = 1.0
    """Random floating-point values are in the range from `low` to `high`."""


class Loop(msgspec.Struct, frozen=True):
    """One dim of an op's iteration space."""

    dim: str
    size: int
    summed: bool = False
    """True if the dim is a reduction dim. If this is false, the dim is parallel."""


@dataclass(frozen=True, slots=True)
class Operation(Workload):
    """An operation with its sizes, types, layout and options. An example is the subclass in matmul.py."""

    # field(): otherwise the property of Workload would be taken for the default.
    sizes: tuple[int, ...] = field()
    """The sizes of the dims, in the order of `dims`."""
    signature: Signature
    layout: str = field()
    chosen: tuple[str | int, ...]
    """The values of the options, in the order of `options`."""

    signatures: ClassVar[Mapping[str, Signature]]
    """A dict from words in specs, such as `f16`, to element types. The first item is the default."""
    layouts: ClassVar[tuple[str, ...]] = ("t",)
    """The supported layouts, the default first: names such as `nhwc_hwcf`, or letters such as `tn`.

    Each letter is for one operand: `t` is row-major, `n` is column-major. Operands without a letter are row-major."""
    options: ClassVar[Mapping[str, Option]] = {}
    """A dict from names to options. Specs, command lines and tables of results use these names."""
    by_dims: ClassVar[bool] = True
    """If a sweep gives dims but no operation, operations for which this is True are preferred."""
    library_options: ClassVar[tuple[str, ...]] = ()
    """The options that `library_call` supports; all other options must have their defaults."""

    @classmethod
    def make(
        cls, sizes: Sequence[int], types: str | None = None, layout: str | None = None, **options: str | int
    ) -> Operation:
        """Return the operation with these sizes; arguments that are left out have their defaults."""
        chosen = tuple(options.get(word, option.default) for word, option in cls.options.items())
        first = next(iter(cls.signatures))
        return cls(tuple(sizes), cls.signatures[types or first], layout or cls.layouts[0], chosen)

    def option(self, word: str) -> Any:
        return self._by_word[word]

    @cached_property
    def _by_word(self) -> dict[str, str | int]:
        return dict(zip(self.options, self.chosen, strict=True))

    @property
    def types(self) -> Signature:
        """The signature with the actual result type, which an option such as `epilogue=cast` may change."""
        return self.signature

    @property
    def element_types(self) -> str:
        return self.types.spelling

    @cached_property
    def label(self) -> str:
        """The sizes, types, layouts and options as a text: `4x4x4_f32t_f32t_f32t_accumulate_yes`.

        Options with default values are left out. The text has the result's type before a cast by `epilogue=cast`."""
        types, lettered = self.signature, set(self.layout) <= _LETTERS
        elements = [element.mlir for element in types.operands]
        if lettered:
            letters = self.layout.ljust(len(elements), Layout.ROW.value)
            elements = [element + letter for element, letter in zip(elements, letters, strict=True)]
        words = ["x".join(map(str, self.sizes)), *elements, types.result.mlir + (Layout.ROW.value if lettered else "")]
        words += [] if types.accumulator is types.result else ["acc", types.accumulator.mlir]
        words += [] if lettered or self.layout == self.layouts[0] else [self.layout]
        for (word, option), value in zip(self.options.items(), self.chosen, strict=True):
            words += [] if value == option.default else [word, str(value)]
        return "_".join(words)

    def illegal(self, backend: str) -> str | None:
        """Return why the backend cannot run these sizes, types and options; None if it can."""
        return None

    @property
    def dynamic_dims(self) -> tuple[str, ...]:
        """The dims whose sizes are unknown at compile time, so that one module is used for all sizes."""
        return ()

    @abstractmethod
    def operands(self) -> tuple[Operand, ...]: ...

    @abstractmethod
    def result(self) -> TensorType: ...

    @abstractmethod
    def body(self, attribute: str) -> str:
        """Return the MLIR of the function's body, up to and including `return`.

        Operands are `%arg0`, `%arg1`, …; every op ends in `loc(unknown)`. If a tuning needs an attribute on one of
        the ops, `attribute` is the text of this attribute, such as `{…} `. Otherwise it is empty."""

    def body_for(self, syntax: Release, attribute: str) -> str:
        """Return `body` in the syntax of an IREE release. Override this if the syntax of an op changes."""
        return self.body(attribute)

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The loops of the MLIR op to which a tuning attaches its configuration, outermost first.

        The tuple is empty if the operation has no such op."""
        return ()

    @abstractmethod
    def reference(self, operands: Sequence[Array]) -> Array:
        """Return the expected result. Operands and result are float64, or int64 that wraps on overflow."""

    def library_call(self, library: Library) -> str:
        """Return a Python expression that computes the result with `library`, such as numpy.

        The operands are `x0`, `x1`, …, in the shapes of `operands()`. With numpy, the expression may use `np`. With
        torch, it may use `torch` and `F` (torch.nn.functional). Methods of `library` add casts to an expression."""
        raise NotImplementedError(self.name)

    def library_lacks(self, library: Library) -> str | None:
        """Return why a library cannot compute the operation (the case is then skipped); None if it can."""
        if type(self).library_call is Operation.library_call:
            return f"no {library.name} call is written for {self.name}"
        for (word, option), value in zip(self.options.items(), self.chosen, strict=True):
            if word not in self.library_options and value != option.default:
                unusual = f"with {word} other than {option.default}"
                return f"no {library.name} call is written for {self.name} {unusual}"
        return None

    @property
    def parallel(self) -> tuple[str, ...]:
        """The dims that occur in no sum, such as m and n of a matrix product."""
        return ()

    multiplies: ClassVar[bool] = False
    """True if the terms of sums are products of two factors, such as a · b in A·B.

    If so, verification of floating-point sums tests whether a kernel drops digits of factors, as with tf32."""

    @property
    def recipes(self) -> tuple[str, ...]:
        """The names of the recipes that make inputs for verification. Measurements use the last recipe."""
        exact = ("exact", *(f"exact{i}" for i in range(2, 10)))[: len(thinnings(self))]
        own = ["wide"] * self.has_wide + ["largest"] * has_largest(self)
        return (*exact, *own, "random")

    @property
    def has_wide(self) -> bool:
        """True if the recipe `wide` is one of the operation's recipes.

        A kernel that reads operands in a narrower type has wrong results for the inputs of `wide`."""
        return self.multiplies and self.signature.accumulator.is_float

    def made(self, recipe: str) -> list[Array] | None:
        """Return the inputs of a recipe; None if the module `verification.inputs` makes them.

        Override this if the operation has recipes of its own. The inputs are float64 arrays, one for each operand,
        with numbers that the operand's type can represent."""
        return None

    def compares_bits(self, recipe: str) -> bool:
        """Return whether results for a recipe's inputs are compared bit by bit, and not with an error bound."""
        return recipe.startswith(("exact", "wide")) or self.bitwise

    @property
    def bitwise(self) -> bool:
        """True if only one result is correct for each input, as for integers or a transposition."""
        return not self.types.result.is_float

    def magnitude(self, operands: Sequence[Array]) -> Array:
        """Return Σ|terms| for each element of the result, as float64.

        Bounds on errors are multiples of this sum. The default is the reference's result for the absolute values of
        the operands (Higham, Accuracy and Stability of Numerical Algorithms, 3.13). An operation that subtracts must
        override this method or the method `error`."""
        return abs(self.reference([abs(operand) for operand in operands]))

    def error(self, operands: Sequence[Array]) -> Array:
        """Return a bound on the rounding error of each result element, as float64.

        The bound leaves out the final rounding to the result's type."""
        return growth(self.terms) * self.signature.accumulator.unit * self.magnitude(operands)

    def error_on(self, recipe: str, operands: Sequence[Array]) -> Array:
        """Return a bound like `error`, for a recipe's inputs. Override this if a smaller bound holds."""
        return self.error(operands)

    @property
    def terms(self) -> int:
        """The number of terms in the sum that gives one element of the result; for a matmul, the size of `k`."""
        thinned = next((operand for operand in self.operands() if operand.summed), None)
        return prod(thinned.type.shape[axis] for axis in thinned.summed) if thinned else 1

    @property
    def factors(self) -> int:
        """The number of operands that are multiplied in one term of a sum."""
        return 2

    @property
    def addends(self) -> int:
        """The number of operands that are added to the sums, such as a bias or an initial value."""
        return 0

    @property
    def clips(self) -> bool:
        """True if the sums pass through a relu or gelu, which may hide errors of negative sums."""
        return False

    @property
    def dispatches(self) -> int | None:
        """The number of different dispatches that the compiler must make; None if any number is right."""
        return None

    @property
    def may_copy(self) -> bool:
        """True if an additional dispatch may copy an operand into a larger tensor, to pad it."""
        return False

    @abstractmethod
    def flops(self) -> int:
        """Return the number of arithmetic operations in one call; one multiply-add counts as two."""

    def read_bytes(self) -> int:
        """Return how many bytes of operands a call must read. Override this if some bytes are never read."""
        return sum(operand.type.nbytes for operand in self.operands())

    def traffic_bytes(self) -> int:
        """Return how many bytes one call moves if it reads every operand once and writes every result once."""
        return self.read_bytes() + self.result().nbytes


_LETTERS = {letter.value for letter in Layout}
