"""Choose the inputs of the recipe `exact`.

With these inputs, the accumulator represents all partial sums exactly. A recipe is a way to make inputs for
verification (docs/verification.md). An operation has one or more sets of exact inputs, named `exact`, `exact2`, … The
sets differ in their values, or in the positions of their zeros."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log2, prod, sqrt
from typing import NamedTuple, Protocol

from dispatchflow.mlir.types import Signature, TensorType

_SETS = 4
"""The largest number of sets of exact inputs, not counting a set that shows a missing relu.

Each set needs a call of the module. For the set that shows a missing relu, see `Thinning.clipped`."""

FEW = 3
"""The least number of results that should depend on each input element.

If fewer results depend on an element, and results are clipped (by a relu) or rounded, an error in the element may
change no result. More sets of inputs are then made."""

_ROWS = 16
"""If fewer results than this use an element of a factor, `random` may not show a missing relu or gelu.

This is so in a product A·B with fewer than 16 rows or columns. The operation then has a set of exact inputs with
negative sums (`Thinning.clipped`)."""


_LARGEST_BITS, _SUM_BITS, _SUM_TERMS, _RESULT_BITS = 8, 32, 32, 8
"""The limits within which the recipe `largest` is used.

The recipe shows sums that a kernel computes in too few bits. It is used if factors are integers of at most 8 bits, sums
are computed in at least 32 bits and have at least 32 terms, and results have at least 8 bits. Otherwise the recipe is
not needed or shows nothing. For example, sums of 16-bit factors are so large in the recipe `exact` that they already
show a kernel that adds in fewer than 32 bits."""


class Operand(Protocol):
    """The part of `api.Operand` that is used here. This file cannot import `api`, which imports this file."""

    @property
    def type(self) -> TensorType: ...
    @property
    def summed(self) -> tuple[int, ...]: ...
    @property
    def crossed(self) -> tuple[int, ...]: ...


class Operation(Protocol):
    """The part of `api.Operation` that is used here."""

    @property
    def types(self) -> Signature: ...
    @property
    def terms(self) -> int: ...
    @property
    def factors(self) -> int: ...
    @property
    def addends(self) -> int: ...
    @property
    def clips(self) -> bool: ...
    def operands(self) -> Sequence[Operand]: ...
    def result(self) -> TensorType: ...


class ExactRange(NamedTuple):
    """Limits on an operation's inputs, small enough that no sum is rounded."""

    r: int
    """The largest magnitude: values are in -r … r, without 0."""
    safe: int
    """The number of nonzero terms up to which a sum is certain to be exact."""
    shift: int
    """The amount by which all values of an added operand, such as a bias, are raised or lowered."""


def has_largest(operation: Operation) -> bool:
    """Return whether an operation is verified with the inputs of the recipe `largest`.

    These inputs (see `_range.largest`) detect kernels that sum integers in too few bits."""
    accumulator, result = operation.types.accumulator, operation.types.result
    if accumulator.is_float or accumulator.bits < _SUM_BITS or operation.terms < _SUM_TERMS:
        return False
    if result.bits < _RESULT_BITS:  # a cast keeps the last digits of sums, which are 0
        return False
    factors = [operand.type.element for operand in operation.operands() if is_factor(operand)]
    return bool(factors) and all(not element.is_float and element.bits <= _LARGEST_BITS for element in factors)


def exact_range(operation: Operation) -> ExactRange:
    """Choose limits on an operation's inputs, so small that additions are exact.

    For example, the nonzero elements of a float matrix are -3, -2, -1, 1, 2 or 3."""
    # r is the largest of 3, 2 and 1 with which a sum is exact if all its terms are nonzero; if there is none, r is 1. A
    # small r is better than terms that are zero, because a lost term is noticed only if it is not zero. If the result
    # is narrower than the accumulator, r is also small enough for the result's type to represent most sums exactly, if
    # such an r exists. The number of nonzero terms follows benchdnn (oneDNN, tests/benchdnn/matmul), except that
    # exactly `safe` terms of each result are nonzero: as many as are exact.
    # Integers may exceed the limits (see `_range.one_sided`): a sum that wraps is the same in any order.
    accumulator, terms = operation.types.accumulator, operation.terms
    room, factors, addends = 2**accumulator.digits, operation.factors, operation.addends
    for r in (3, 2, 1):
        spread = r**factors * sqrt(min(terms, room // r**factors))
        shift = 2 ** ceil(log2(1.5 * spread)) if operation.clips else 0
        safe = (room - addends * (r + shift)) // r**factors
        if r == 1 or (safe >= terms and _fits(operation, spread + shift)):
            return ExactRange(r, safe, shift)
    raise AssertionError("unreachable")


def _fits(operation: Operation, sum: float) -> bool:
    """Return whether the result's type represents integers up to the magnitude `sum` without rounding.

    This is true for integer types: a sum that is too large for them wraps, and is not rounded."""
    return not operation.types.result.is_float or sum <= 2**operation.types.result.digits


class Thinning(NamedTuple):
    """The choice of input elements that are zero, so that sums have few terms and are exact.

    For example, each row of a matrix keeps 64 nonzero elements."""

    axes: tuple[tuple[int, ...], ...]
    """The axes along which operands have zeros.

    With ((1,), ()), some elements in each row of the first operand are 0, and the second operand has no zeros."""
    share: int = 0
    """The number of nonzero elements in each line. The indices of a line's elements differ only in `axes`.

    With the axes (1,), each row of a matrix is a line."""
    part: int = 0
    parts: int = 1
    """The number of sets of inputs that have zeros along `axes`, at different positions in each set.

    Each element of the other operands is multiplied by a nonzero element in at least one of these sets. `part` is the
    index, from 0, of the set that this object describes. The last sets are left out if the operation would have more
    than `_SETS` sets."""
    balanced: bool = False
    """True if the terms of a sum are 1 and -1 and add up to 3 or 4, so that the result shows a lost term.

    In contrast, a sum of 512 random terms of 1 and -1 is about 22 in magnitude. After rounding to a type with three or
    four digits (f8), such a sum does not show a lost 1."""
    clipped: bool = False
    """True if a bias reverses the signs of most sums before a relu or gelu, to show a missing relu.

    In the other sets of exact inputs, most sums of floats are positive, and a relu does not change them. In a clipped
    set, a floating-point bias makes most sums negative. An integer bias is near the upper end of its type's range.
    Added to this bias, positive sums wrap to negative ones, and negative sums give large positive results."""


def thinnings(operation: Operation) -> tuple[Thinning, ...]:
    """Choose verification inputs for which an operation's sums are the same in any order.

    Each `Thinning` in the result says where the inputs of one set have zeros."""
    sets, types = _unclipped(operation), operation.types
    # The random products of unsigned and signed integers have one sign in most columns.
    mixed = any(element.is_unsigned for element in types.operands)
    factors = [operand for operand in operation.operands() if is_factor(operand)]
    if not sets or not operation.clips or (_uses(operation, factors) >= _ROWS and not mixed):
        return sets
    return (*(sets if types.accumulator.is_float else sets[:1]), sets[0]._replace(clipped=True))


def _unclipped(operation: Operation) -> tuple[Thinning, ...]:
    """Choose the zeros in each set of inputs of the recipe `exact`.

    The set that shows a missing relu (`Thinning.clipped`) is not included. If it is needed, `thinnings` adds it."""
    # If all terms may be nonzero, there is one set. There are two if clipping or rounding of the results may hide an
    # error in one set. Otherwise there are as many sets as are needed for each element of each operand to contribute to
    # a result in at least one set, but at most `_SETS`.
    #
    # If one of two factors has zeros, an element of the other factor contributes only to results whose term with this
    # element is not zero. Therefore some sets have zeros in one factor, and some in the other.
    operands, safe, terms = operation.operands(), exact_range(operation).safe, operation.terms
    if terms <= safe:
        # Clipping or rounding may hide an element in one set, if few results use it or if sums are large. Then there
        # are two sets.
        rounds = operation.types.result.digits < operation.types.accumulator.digits
        few = _uses(operation, [operand for operand in operands if is_factor(operand)]) < FEW
        first = Thinning(((),) * len(operands))
        if not (few and (operation.clips or rounds)) and _fits(operation, sqrt(terms)):
            return (first,)
        balanced = rounds and operation.types.result.is_float and operation.factors == 2
        return (first, first._replace(balanced=balanced))
    windows, sets = -(-terms // max(safe, 1)), []
    for name in ("summed", "crossed"):
        axes = tuple(getattr(operand, name) for operand in operands)
        share = _share(operands, axes, safe, terms)
        whole = [one for one, thin in zip(operands, axes, strict=True) if is_factor(one) and not thin]
        uses = _uses(operation, whole) // (FEW if operation.clips else 1)
        parts = -(-windows // max(uses, 1)) if any(axes) and share else 0
        sets += [Thinning(axes, share, part, parts) for part in range(parts)]
    return tuple(sorted(sets, key=lambda one: one.part)[:_SETS])


def _uses(operation: Operation, operands: Sequence[Operand]) -> int:
    """Return how many products use one element of an operand, on average.

    In the product of matrices [m, k] and [k, n], n products use an element of the first matrix, and m products use an
    element of the second. If `operands` has both matrices, the result is min(m, n)."""
    products = operation.result().size * operation.terms
    return min((products // operand.type.size for operand in operands if operand.type.size), default=1)


def is_factor(operand: Operand) -> bool:
    """Return True for the operands of a sum, such as A and B in A·B, and False for others, such as a bias."""
    return bool(operand.summed or operand.crossed)


def _share(operands: Sequence[Operand], axes: Sequence[tuple[int, ...]], safe: int, terms: int) -> int:
    """Choose how many elements in each line of an operand are nonzero.

    A line is, for example, a row of A in A·B. With the chosen number, each sum of `terms` terms has at most `safe`
    nonzero terms. The result is 0 if this is impossible."""
    lengths = [
        prod(operand.type.shape[axis] for axis in thin) for operand, thin in zip(operands, axes, strict=True) if thin
    ]
    if not lengths:
        return 0
    most, thinned = safe * prod(lengths) // terms, len(lengths)
    root = int(most ** (1 / thinned))
    share = next(share for share in (root + 1, root, root - 1) if share**thinned <= most)
    return share - 1 if share in (2, 4, 6, 8) else share  # an even number of values ±1 often adds up to 0
