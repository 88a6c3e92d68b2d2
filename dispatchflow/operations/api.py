"""The contract of an operation, and all that a file with one imports.

A new operation is one new file beside this one; docs/adding.md shows how.
"""

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
    """One input tensor. `summed`: the axes summed over, where exact inputs are thinned out on one operand so that
    every partial sum stays exact (see `inputs.exact`); none for the others. `shared`: of the two operands that are
    multiplied, the axis along which an element meets those of the same index only (see `inputs.wide`). `crossed`: of
    a factor of an operand that is thinned out, the axes along which this one can be. `low` and `high`: the range of
    random floating-point values."""

    type: TensorType
    summed: tuple[int, ...] = ()
    shared: int | None = None
    crossed: tuple[int, ...] = ()
    low: float = -1.0
    high: float = 1.0


class Loop(msgspec.Struct, frozen=True):
    """One dim of an op's iteration space; `summed`: what it makes is added up, or reduced otherwise."""

    dim: str
    size: int
    summed: bool = False


@dataclass(frozen=True, slots=True)
class Operation(Workload):
    """What is computed. Frozen: identity is these fields, and the label tells them apart. `name` equals the file's."""

    # field(): else a Program's property would be taken for the default.
    sizes: tuple[int, ...] = field()
    """Of `dims`, in their order."""
    signature: Signature
    layout: str = field()
    chosen: tuple[str | int, ...]
    """The values of `options`, in their order."""

    signatures: ClassVar[Mapping[str, Signature]]
    """Short word → element types; the first is the default. Both the word and the full spelling are accepted. They are
    the types of data, accumulator and result; how many operands there are `operands` says."""
    layouts: ClassVar[tuple[str, ...]] = ("t",)
    """A letter for each of the first operands (`t` row-major, `n` column-major; those without one are row-major), or
    words; the first is the default."""
    options: ClassVar[Mapping[str, Option]] = {}
    """Further axes: words of a spec, variables and columns."""
    by_dims: ClassVar[bool] = True
    """Whether dims on the command line choose it without its name; not where another with the same dims is meant."""
    library_options: ClassVar[tuple[str, ...]] = ()
    """The options that `library_call` heeds; with another value of any other one it is not asked."""

    @classmethod
    def make(
        cls, sizes: Sequence[int], types: str | None = None, layout: str | None = None, **options: str | int
    ) -> Operation:
        """The operation with these sizes; what is left out is the default."""
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
        """Of data, accumulator and result: the signature, unless an option changes what the result has."""
        return self.signature

    @property
    def element_types(self) -> str:
        return self.types.spelling

    @cached_property
    def label(self) -> str:
        """Sizes, types with layouts, and what is not the default: `512x512x512_f32t_f32t_f32t_accumulate_yes`. Types as
        they were chosen: two of them may become one under an option."""
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
        """Why these sizes, types, layout and options do not go together, or cannot be had of this backend; None when
        they can. The reason of a skip."""
        return None

    @property
    def dynamic_dims(self) -> tuple[str, ...]:
        """The dims whose sizes the compiler is not told: one module for all of them."""
        return ()

    @abstractmethod
    def operands(self) -> tuple[Operand, ...]: ...

    @abstractmethod
    def result(self) -> TensorType: ...

    @abstractmethod
    def body(self, attribute: str) -> str:
        """MLIR of the function's body, up to and with `return`; operands are `%arg0`, `%arg1`, …; every op
        ends in `loc(unknown)`; `attribute` stands on the op that a tuning configures (empty, or `{…} `)."""

    def body_for(self, syntax: Release, attribute: str) -> str:
        """`body` as this release can read it; another text where an op was written otherwise then."""
        return self.body(attribute)

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The iteration space of the op that `attribute` stands on, outermost first; none where the body leaves the
        attribute out. Tile sizes are given by these dims."""
        return ()

    @abstractmethod
    def reference(self, operands: Sequence[Array]) -> Array:
        """The expected result from operands as they lie in memory (shapes of `operands()`): floating point in float64,
        exact when every partial sum is an integer below 2**53; integers in int64, where sums wrap."""

    def library_call(self, library: Library) -> str:
        """A Python expression that computes the result in this library's words (numpy is `np`; torch is `torch`, its
        functions `F`), from `x0`, `x1`, … as they lie in memory. See `providers.Library` for casts."""
        raise NotImplementedError(self.name)

    def library_lacks(self, library: Library) -> str | None:
        """Why this library cannot compute it, None when it can. The reason of a skip."""
        if type(self).library_call is Operation.library_call:
            return f"what {library.name} calls for {self.name} is not written"
        for (word, option), value in zip(self.options.items(), self.chosen, strict=True):
            if word not in self.library_options and value != option.default:
                unusual = f"with another {word} than {option.default}"
                return f"what {library.name} calls for {self.name} {unusual} is not written"
        return None

    @property
    def parallel(self) -> tuple[str, ...]:
        """The dims that can be smaller without another sum in any result: rows and columns of a product. What the
        recipes see is judged with fewer of these (`verification.power`)."""
        return ()

    multiplies: ClassVar[bool] = False
    """Whether two operands are multiplied, which say what they share: their own precision is then tested too."""

    @property
    def recipes(self) -> tuple[str, ...]:
        """The sets of inputs that it is verified with. The last one is what is measured."""
        exact = ("exact", *(f"exact{i}" for i in range(2, 10)))[: len(thinnings(self))]
        return (*exact, *(("wide",) if self.has_wide else ()), "random")

    @property
    def has_wide(self) -> bool:
        """Whether there are inputs with all digits for it, as `verification.inputs` makes them."""
        return self.multiplies and self.signature.accumulator.is_float

    def made(self, recipe: str) -> list[Array] | None:
        """The operands of a recipe of its own, in float64, with values that their element types hold; None for those
        that `inputs` makes."""
        return None

    def compares_bits(self, recipe: str) -> bool:
        """Whether these inputs have one right result, bit by bit; else each element has a bound."""
        return recipe.startswith("exact") or recipe == "wide" or self.bitwise

    @property
    def bitwise(self) -> bool:
        """Whether random inputs too have one right result, bit by bit: integers, and what only selects or moves."""
        return not self.types.result.is_float

    def magnitude(self, operands: Sequence[Array]) -> Array:
        """Σ|terms| of every result element in float64: the scale of its rounding error (Higham, Accuracy and
        Stability of Numerical Algorithms, 3.13). Right as it stands for multilinear operations that add all terms, or
        subtract all."""
        return abs(self.reference([abs(operand) for operand in operands]))

    def error(self, operands: Sequence[Array]) -> Array:
        """A bound of the error before the result is rounded, in float64: min(K, 16) · u · Σ|terms|; u = 2**-digits. See
        `growth`."""
        return growth(self.terms) * self.signature.accumulator.unit * self.magnitude(operands)

    def error_on(self, recipe: str, operands: Sequence[Array]) -> Array:
        """`error` on the inputs of this recipe; smaller where these are such that less is rounded."""
        return self.error(operands)

    @property
    def terms(self) -> int:
        """Terms summed into one result element (K of a matmul)."""
        thinned = next((operand for operand in self.operands() if operand.summed), None)
        return prod(thinned.type.shape[axis] for axis in thinned.summed) if thinned else 1

    @property
    def factors(self) -> int:
        """So many operands are multiplied in one term of a result's sum."""
        return 2

    @property
    def addends(self) -> int:
        """Single values added to the sum: a bias, an accumulator that is not zero."""
        return 0

    @property
    def clips(self) -> bool:
        """Whether what follows a sum makes all negative ones nearly alike: its exact inputs then have few of these."""
        return False

    @property
    def dispatches(self) -> int | None:
        """How many different dispatches it must become; None where that is the compiler's choice. Another number is a
        failure: what is measured as one dispatch is one."""
        return None

    @property
    def may_copy(self) -> bool:
        """Whether one more dispatch may copy an operand into a larger tensor: as it does where it is padded."""
        return False

    @abstractmethod
    def flops(self) -> int:
        """Arithmetic operations of one call; one multiply-add counts as two."""

    def read_bytes(self) -> int:
        """Bytes of the operands that a call must read. Overridden where a result can be had without some of them."""
        return sum(operand.type.nbytes for operand in self.operands())

    def traffic_bytes(self) -> int:
        """Bytes of one call when every operand is read once and every result written once."""
        return self.read_bytes() + self.result().nbytes


_LETTERS = {letter.value for letter in Layout}
