"""The contract of an operation, and every name that an operation's file imports.

A new operation is one new file beside this one; docs/adding.md shows how."""

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
from dispatchflow.operations._exact import thinnings
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
    """One input tensor."""

    type: TensorType
    summed: tuple[int, ...] = ()
    """The summed axes along which exact inputs have zeros (see `inputs.exact`); empty for other factors."""
    shared: int | None = None
    """Axis along which an element meets only equal indices of the other factor (see `inputs.wide`)."""
    crossed: tuple[int, ...] = ()
    """Axes along which this factor can have the zeros, instead of the factor that has `summed`."""
    lines: tuple[int, ...] = ()
    """Axes that are also the result's, without a window: each line may have its own power of two.

    See `_range.spans`."""
    low: float = -1.0
    high: float = 1.0
    """The range of random floating-point values, from `low` to `high`."""


class Loop(msgspec.Struct, frozen=True):
    """One dim of an op's iteration space."""

    dim: str
    size: int
    summed: bool = False
    """Whether the values along it are added up, or reduced otherwise."""


@dataclass(frozen=True, slots=True)
class Operation(Workload):
    """An operation. Its fields are its identity, shown by its label; `name` equals the file's name."""

    # field(): otherwise the property of Workload would be taken for the default.
    sizes: tuple[int, ...] = field()
    """The sizes of `dims`, in their order."""
    signature: Signature
    layout: str = field()
    chosen: tuple[str | int, ...]
    """The values of `options`, in their order."""

    signatures: ClassVar[Mapping[str, Signature]]
    """Word → types of operands, accumulator and result; the first is the default.

    A spec may also give the full spelling. The number of operands is that of `operands`."""
    layouts: ClassVar[tuple[str, ...]] = ("t",)
    """Layouts; the first is the default. Each is a word, or has one letter for each of the first operands.

    `t` is row-major, `n` column-major; operands without a letter are row-major."""
    options: ClassVar[Mapping[str, Option]] = {}
    """Further axes: words of a spec, variables and columns."""
    by_dims: ClassVar[bool] = True
    """Whether dims on the command line choose it without its name; true for at most one operation per set."""
    library_options: ClassVar[tuple[str, ...]] = ()
    """The options that `library_call` supports; all other options must have their defaults."""

    @classmethod
    def make(
        cls, sizes: Sequence[int], types: str | None = None, layout: str | None = None, **options: str | int
    ) -> Operation:
        """Return the operation with these sizes, and defaults for all that is left out."""
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
        """Types of operands, accumulator and result: the signature, unless an option changes the result's."""
        return self.signature

    @property
    def element_types(self) -> str:
        return self.types.spelling

    @cached_property
    def label(self) -> str:
        """Sizes, types with layouts, and choices that are not defaults: `4x4x4_f32t_f32t_f32t_accumulate_yes`.

        Types are those of the signature, because `types` of two signatures may be equal under an option."""
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
        """Return why the choices do not fit together or the backend, as a skip's reason; None if they do."""
        return None

    @property
    def dynamic_dims(self) -> tuple[str, ...]:
        """The dims whose sizes are unknown at compile time: one module serves all their sizes."""
        return ()

    @abstractmethod
    def operands(self) -> tuple[Operand, ...]: ...

    @abstractmethod
    def result(self) -> TensorType: ...

    @abstractmethod
    def body(self, attribute: str) -> str:
        """Return the MLIR of the function's body, up to and including `return`.

        Operands are `%arg0`, `%arg1`, …; every op ends in `loc(unknown)`; `attribute` (empty, or `{…} `) stands on the
        op that a tuning configures."""

    def body_for(self, syntax: Release, attribute: str) -> str:
        """Return `body` in the syntax of this release; override it if an op was written differently."""
        return self.body(attribute)

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The loops of the op that has `attribute`, outermost first; tile sizes are named by their dims.

        Empty if the body does not use the attribute."""
        return ()

    @abstractmethod
    def reference(self, operands: Sequence[Array]) -> Array:
        """Return the expected result of operands in the shapes of `operands()`.

        Floating point is in float64, exact if every partial sum is an integer below 2**53; integers are in int64, where
        sums wrap."""

    def library_call(self, library: Library) -> str:
        """Return a Python expression that computes the result with this library.

        numpy is `np`; torch is `torch`, its functions `F`. Operands are `x0`, `x1`, …, in the shapes of `operands()`.
        See `providers.Library` for casts."""
        raise NotImplementedError(self.name)

    def library_lacks(self, library: Library) -> str | None:
        """Return why this library cannot compute it, as a skip's reason; None if it can."""
        if type(self).library_call is Operation.library_call:
            return f"no {library.name} call is written for {self.name}"
        for (word, option), value in zip(self.options.items(), self.chosen, strict=True):
            if word not in self.library_options and value != option.default:
                unusual = f"with {word} other than {option.default}"
                return f"no {library.name} call is written for {self.name} {unusual}"
        return None

    @property
    def parallel(self) -> tuple[str, ...]:
        """The dims that can shrink without changing the terms of any sum: rows and columns of a product.

        `verification.power` shrinks them before it checks whether the recipes detect an error."""
        return ()

    multiplies: ClassVar[bool] = False
    """Whether two operands that have `shared` are multiplied; the digits of both are then tested too."""

    @property
    def recipes(self) -> tuple[str, ...]:
        """The recipes of its inputs for verification; the inputs of the last recipe are also measured."""
        exact = ("exact", *(f"exact{i}" for i in range(2, 10)))[: len(thinnings(self))]
        return (*exact, *(("wide",) if self.has_wide else ()), "random")

    @property
    def has_wide(self) -> bool:
        """Whether `verification.inputs` has a recipe for it in which all digits of the inputs matter."""
        return self.multiplies and self.signature.accumulator.is_float

    def made(self, recipe: str) -> list[Array] | None:
        """Return the operands of a recipe of its own, in float64; None if `inputs` makes them.

        The operands' element types hold the values exactly."""
        return None

    def compares_bits(self, recipe: str) -> bool:
        """Return whether only one result is right on these inputs, bit by bit; if not, elements have bounds."""
        return recipe.startswith("exact") or recipe == "wide" or self.bitwise

    @property
    def bitwise(self) -> bool:
        """Whether only one result is right, bit by bit, also on random inputs: integers, selections, moves."""
        return not self.types.result.is_float

    def magnitude(self, operands: Sequence[Array]) -> Array:
        """Return Σ|terms| of every result element in float64: its rounding error is relative to this.

        See Higham, Accuracy and Stability of Numerical Algorithms, 3.13. The default is right for multilinear
        operations that add all terms or subtract all terms."""
        return abs(self.reference([abs(operand) for operand in operands]))

    def error(self, operands: Sequence[Array]) -> Array:
        """Return a bound of the error before the result is rounded, in float64.

        It is min(K, 16) · u · Σ|terms| with u = 2**-digits. See `growth`."""
        return growth(self.terms) * self.signature.accumulator.unit * self.magnitude(operands)

    def error_on(self, recipe: str, operands: Sequence[Array]) -> Array:
        """Return the bound `error` for the inputs of this recipe; it is smaller if they cause less rounding."""
        return self.error(operands)

    @property
    def terms(self) -> int:
        """Number of terms summed into one result element (K of a matmul)."""
        thinned = next((operand for operand in self.operands() if operand.summed), None)
        return prod(thinned.type.shape[axis] for axis in thinned.summed) if thinned else 1

    @property
    def factors(self) -> int:
        """Number of operands that are multiplied in one term of a result's sum."""
        return 2

    @property
    def addends(self) -> int:
        """Number of single values added to the sum: a bias, an accumulator that is not zero."""
        return 0

    @property
    def clips(self) -> bool:
        """Whether the epilogue makes negative sums nearly equal; exact inputs then have few negative sums."""
        return False

    @property
    def dispatches(self) -> int | None:
        """Number of different dispatches that it must become; None if the compiler may choose.

        Another number is a failure, so that a time that is reported for one dispatch is the time of one dispatch."""
        return None

    @property
    def may_copy(self) -> bool:
        """Whether one more dispatch may copy an operand into a larger tensor, to pad it."""
        return False

    @abstractmethod
    def flops(self) -> int:
        """Return the arithmetic operations of one call; one multiply-add counts as two."""

    def read_bytes(self) -> int:
        """Return the operands' bytes that a call must read; override it if results need only some of them."""
        return sum(operand.type.nbytes for operand in self.operands())

    def traffic_bytes(self) -> int:
        """Return the bytes of one call if every operand is read once and every result written once."""
        return self.read_bytes() + self.result().nbytes


_LETTERS = {letter.value for letter in Layout}
