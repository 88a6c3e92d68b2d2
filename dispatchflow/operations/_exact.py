"""How the exact recipe's numbers are chosen, so that every partial sum is an integer that the accumulator holds."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log2, prod, sqrt
from typing import NamedTuple, Protocol

from dispatchflow.mlir.types import Signature, TensorType

_SETS = 4
"""So many sets of exact inputs at most: each is one more call of the module."""

FEW = 3
"""An element that fewer results use may not show in any of them, where a result is clipped or rounded."""


class Operand(Protocol):
    """What is asked of `api.Operand`, which cannot be imported here: it is above."""

    @property
    def type(self) -> TensorType: ...
    @property
    def summed(self) -> tuple[int, ...]: ...
    @property
    def crossed(self) -> tuple[int, ...]: ...


class Operation(Protocol):
    """What is asked of `api.Operation`."""

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
    """Values in -r … r without 0, at most `safe` nonzero terms a result, `shift` added to what is added to a sum:
    |Σ| ≤ safe · r**factors + addends · (r + shift) ≤ 2**digits."""

    r: int
    safe: int
    shift: int


def exact_range(operation: Operation) -> ExactRange:
    """The density rule is benchdnn's (oneDNN, tests/benchdnn/matmul), with exactly `safe` terms a result.

    As many terms as fit come before more values: a lost term shows only where it is not zero. A result that is
    narrower than the accumulator is rounded once; there r is so small that most sums are whole in it.
    """
    accumulator, result, terms = operation.types.accumulator, operation.types.result, operation.terms
    room, factors, addends = 2**accumulator.digits, operation.factors, operation.addends
    for r in (3, 2, 1):
        spread = r**factors * sqrt(min(terms, room // r**factors))
        shift = 2 ** ceil(log2(1.5 * spread)) if operation.clips else 0
        safe = (room - addends * (r + shift)) // r**factors
        whole = not result.is_float or spread + shift <= 2**result.digits
        if r == 1 or (safe >= terms and whole):
            return ExactRange(r, safe, shift)
    raise AssertionError("unreachable")


class Thinning(NamedTuple):
    """What one set of exact inputs keeps: of each operand `share` positions along `axes` in each line of the others,
    all where it has no axes. Each of so many `parts` keeps other positions."""

    axes: tuple[tuple[int, ...], ...]
    share: int = 0
    part: int = 0
    parts: int = 1


def thinnings(operation: Operation) -> tuple[Thinning, ...]:
    """One where all terms fit. Else so many that each element of each operand counts in one of them, but at most
    `_SETS`; none where nothing can be thinned out.

    With one of two factors thinned out, each element of the other stands in as many sums as there are results that use
    it, and counts in those that keep its term. In the next set the other factor is thinned out.
    """
    operands, safe, terms = operation.operands(), exact_range(operation).safe, operation.terms
    if terms <= safe:
        # What is clipped or rounded away in one set counts in the other, where few results use it.
        lossy = operation.clips or operation.types.result.digits < operation.types.accumulator.digits
        few = lossy and _uses(operation, [operand for operand in operands if _factor(operand)]) < FEW
        return (Thinning(((),) * len(operands)),) * (1 + few)
    windows, sets = -(-terms // max(safe, 1)), []
    for name in ("summed", "crossed"):
        axes = tuple(getattr(operand, name) for operand in operands)
        share = _share(operands, axes, safe, terms)
        whole = [one for one, thin in zip(operands, axes, strict=True) if _factor(one) and not thin]
        uses = _uses(operation, whole) // (FEW if operation.clips else 1)
        parts = -(-windows // max(uses, 1)) if any(axes) and share else 0
        sets += [Thinning(axes, share, part, parts) for part in range(parts)]
    return tuple(sorted(sets, key=lambda one: one.part)[:_SETS])


def _uses(operation: Operation, operands: Sequence[Operand]) -> int:
    """How many results use each element of these operands, at least."""
    products = operation.result().size * operation.terms
    return min((products // operand.type.size for operand in operands if operand.type.size), default=1)


def _factor(operand: Operand) -> bool:
    return bool(operand.summed or operand.crossed)


def _share(operands: Sequence[Operand], axes: Sequence[tuple[int, ...]], safe: int, terms: int) -> int:
    """How many positions each line of a thinned operand keeps; of two that are thinned out, the product counts."""
    lengths = [
        prod(operand.type.shape[axis] for axis in thin) for operand, thin in zip(operands, axes, strict=True) if thin
    ]
    if not lengths:
        return 0
    most, thinned = safe * prod(lengths) // terms, len(lengths)
    root = int(most ** (1 / thinned))
    share = next(share for share in (root + 1, root, root - 1) if share**thinned <= most)
    return share - 1 if share in (2, 4, 6, 8) else share  # an even number of ones often adds up to nothing
