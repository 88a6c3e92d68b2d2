"""Inputs by recipe: the same operation, the same bytes, on every machine and numpy.

Numbers come from the raw stream of Philox (fixed by numpy's stream guarantee, NEP 19) by the conversions below, one
stream an operand, so that operands differ and no tuning sees other data. Three recipes, beside
those that an operation makes itself (`Operation.made`):

- exact: small integers, thinned out over the reduction so that every partial sum is an integer that the accumulator
  holds; any order of summation gives the same bits, so a difference is a bug and not rounding. The density rule is
  benchdnn's (oneDNN, tests/benchdnn/matmul), here with exactly `safe` terms a result instead of that many on average.
- wide: as exact, with the whole significand of the operands: in each product one factor has all its digits and the
  other is 1 or -1, in turn along the sum; few terms, side by side. A narrower operand, or a narrower accumulator
  within a part of the sum, cannot give these bits.
- random: uniform in [-1, 1) or the operand's own range, rounded to the element type; integers over their whole range.
"""

from __future__ import annotations

from math import gcd, prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dispatchflow.mlir.types import ElementType
from dispatchflow.operations import Operand, Operation
from dispatchflow.operations._random import SEED as SEED
from dispatchflow.operations._random import below as below
from dispatchflow.operations._random import dtype_of as dtype_of
from dispatchflow.operations._random import stream as stream
from dispatchflow.operations._random import uniform as uniform

if TYPE_CHECKING:
    from dispatchflow.operations.api import Array

_MIN_TERMS = 32
_PACKED = {element.numpy_name for element in ElementType if element.bits < 8}


def stored(array: Array) -> bytes:
    """An array's bytes as they lie in the runtime's memory: elements of 4 bits are two in a byte, the first one low."""
    if array.dtype.name not in _PACKED:
        return array.tobytes()
    halves = np.ascontiguousarray(array).view(np.uint8).reshape(-1) & 15
    low, high = halves[::2], halves[1::2]
    packed = low.copy()
    packed[: high.size] |= high << 4
    return packed.tobytes()


def read(path: Path, dtype: np.dtype | str) -> Array:
    """The elements in a file, one after the other, as `stored` writes them; behind an odd number of 4 bits a zero."""
    if (element := np.dtype(dtype)).name not in _PACKED:
        return np.fromfile(path, element)
    pairs = np.fromfile(path, np.uint8)
    return np.stack((pairs & 15, pairs >> 4), axis=-1).reshape(-1).view(element)


def exact_range(operation: Operation) -> tuple[int, int]:
    """(r, safe): values in -r … r, at most `safe` nonzero terms a result, so that |Σ| ≤ safe · r² ≤ 2**digits; with
    other powers of r where a term has not two factors, and with room for what is added to the sum."""
    accumulator, result = operation.types.accumulator, operation.types.result
    # An integer that is narrowed wraps: the same in every order.
    digits = min(accumulator.digits, result.digits) if result.is_float else accumulator.digits
    # As many terms as fit come before more values: a lost term shows only where it is not zero.
    for r in (3, 2, 1):
        safe = (2**digits - operation.addends * r) // r**operation.factors
        if safe >= operation.terms or r == 1:
            return r, safe
    raise AssertionError("unreachable")


def mistrust(operation: Operation, recipe: str = "exact") -> str | None:
    """Why this recipe tests too little here, None when it does not."""
    if recipe != "exact":
        return None
    _, safe = exact_range(operation)
    if operation.terms > safe and (safe < _MIN_TERMS or not _thinned(operation)):
        return f"only {safe} of {operation.terms} terms fit exactly into {operation.types.result.mlir}"
    return None


def _thinned(operation: Operation) -> bool:
    return any(operand.summed for operand in operation.operands())


def made(operation: Operation, recipe: str) -> list[Array]:
    """Operands of a recipe, as they lie in memory."""
    if (own := operation.made(recipe)) is not None:
        types = (operand.type for operand in operation.operands())
        return [values.astype(dtype_of(tensor.element)) for values, tensor in zip(own, types, strict=True)]
    return {"exact": exact, "wide": wide, "random": random}[recipe](operation)


def exact(operation: Operation) -> list[Array]:
    """Operands of the exact recipe, as they lie in memory."""
    r, safe = exact_range(operation)
    operands = operation.operands()
    share = _root(safe, sum(bool(operand.summed) for operand in operands))
    dense = operation.factors == 1
    return [_exact_operand(operand, index, r, share, dense) for index, operand in enumerate(operands)]


def wide_digits(operation: Operation) -> tuple[int, int]:
    """(digits, terms): the wide recipe's significands, and how many terms of a result are not zero, so that their sum
    is exact in the accumulator and in the result whatever its order."""
    room = min(operation.types.accumulator.digits, operation.types.result.digits)
    digits = min(max(element.digits for element in operation.signature.operands[:2]), room - 2)
    return digits, min(operation.terms, 2 ** (room - digits) - operation.addends)


def wide(operation: Operation) -> list[Array]:
    """Operands of the wide recipe, as they lie in memory."""
    digits, terms = wide_digits(operation)
    operands = operation.operands()
    factors = [index for index, operand in enumerate(operands) if operand.shared is not None]
    found = []
    for index, operand in enumerate(operands):
        tensor, raw = operand.type, stream(index, 2, operand.type.size)
        own = min(digits, tensor.element.digits)
        sign = 1.0 - 2.0 * (raw & np.uint64(1)).astype(np.float64)
        values = _held(sign, tensor.element).reshape(tensor.shape)
        if operand.shared is not None or (not factors and operand.summed):
            # Odd, and the highest bit is set: all digits count. In -2 … 2, which a narrower type holds too.
            odd = 2 * below(raw, 2 ** max(own - 2, 0)) + 1 + (2 ** (own - 1) if own > 1 else 0)
            full = values * odd.reshape(tensor.shape) * 2.0 ** (1 - own)
            values = np.where(_turn(tensor.shape, operand.shared, factors.index(index) if factors else 0), full, values)
        if operand.summed:
            values = values * _mask(tensor.shape, operand.summed, terms, raw, stride=1)
        found.append(values.astype(dtype_of(tensor.element)))
    return found


def _turn(shape: tuple[int, ...], axis: int | None, factor: int) -> Array:
    """Where this factor has all digits: at every second index of the axis that both share, the other factor there has
    one digit. Everywhere where they share none."""
    if axis is None:
        return np.ones(shape, bool)
    turn = np.arange(shape[axis]) % 2 == factor
    return np.broadcast_to(turn.reshape([-1 if i == axis else 1 for i in range(len(shape))]), shape)


def _root(safe: int, thinned: int) -> int:
    """How many positions each of so many thinned operands may keep, for sums of sums: the product is at most `safe`."""
    root = int(safe ** (1 / max(thinned, 1)))
    return next(share for share in (root + 1, root, root - 1) if share ** max(thinned, 1) <= safe)


def random(operation: Operation) -> list[Array]:
    """Operands of the random recipe, as they lie in memory."""
    return [_random_operand(operand, index) for index, operand in enumerate(operation.operands())]


def _exact_operand(operand: Operand, index: int, r: int, safe: int, dense: bool) -> Array:
    tensor = operand.type
    raw = stream(index, 0, tensor.size)
    if not operand.summed and not dense:
        values = below(raw, 2 * r + 1) - r
        return _held(values, tensor.element).reshape(tensor.shape).astype(dtype_of(tensor.element))
    values = below(raw, 2 * r) - r
    values += values >= 0  # no zeros here: a lost zero is not seen, and how many terms count the mask decides alone
    values = _held(values, tensor.element).reshape(tensor.shape)
    if operand.summed:
        values = values * _mask(tensor.shape, operand.summed, safe, raw)
    return values.astype(dtype_of(tensor.element))


def _held(values: Array, element: ElementType) -> Array:
    """As near to these integers as the type has any: magnitudes where it has no sign, 1 or 2 where powers of two."""
    if element is ElementType.F8E8M0FNU:
        return 1.0 + (values > 0)
    return abs(values) if element.is_unsigned else values


def _mask(shape: tuple[int, ...], axes: tuple[int, ...], safe: int, raw: Array, stride: int | None = None) -> Array:
    """True for exactly min(terms, safe) positions along `axes`, at another offset in each line of the others; so far
    apart, by default spread over all."""
    terms = prod(shape[axis] for axis in axes)
    if stride is None:
        stride = next(s for s in range(int(terms * 0.618) or 1, 2 * terms + 2) if gcd(s, terms) == 1)
    line = tuple(1 if i in axes else size for i, size in enumerate(shape))
    offsets = below(raw[: prod(line)] << np.uint64(32), terms).reshape(line)
    positions = np.arange(terms).reshape([size if i in axes else 1 for i, size in enumerate(shape)]) * stride
    return (positions + offsets) % terms < safe


def _random_operand(operand: Operand, index: int) -> Array:
    tensor = operand.type
    raw = stream(index, 1, tensor.size)
    return uniform(raw, tensor.element, operand.low, operand.high).reshape(tensor.shape)
