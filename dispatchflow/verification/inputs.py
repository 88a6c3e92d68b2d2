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
from dispatchflow.operations._exact import exact_range as exact_range
from dispatchflow.operations._exact import thinnings
from dispatchflow.operations._random import SEED as SEED
from dispatchflow.operations._random import below as below
from dispatchflow.operations._random import dtype_of as dtype_of
from dispatchflow.operations._random import full
from dispatchflow.operations._random import stream as stream
from dispatchflow.operations._random import uniform as uniform

if TYPE_CHECKING:
    from dispatchflow.operations.api import Array

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


def made(operation: Operation, recipe: str) -> list[Array]:
    """Operands of a recipe, as they lie in memory."""
    if (own := operation.made(recipe)) is not None:
        types = (operand.type for operand in operation.operands())
        return [values.astype(dtype_of(tensor.element)) for values, tensor in zip(own, types, strict=True)]
    if recipe.startswith("exact"):
        return exact(operation, int(recipe.removeprefix("exact") or 1) - 1)
    return {"wide": wide, "random": random}[recipe](operation)


def exact(operation: Operation, which: int = 0) -> list[Array]:
    """Operands of one set of exact inputs, as they lie in memory."""
    numbers, thinning = exact_range(operation), thinnings(operation)[which]
    made = []
    for index, (operand, axes) in enumerate(zip(operation.operands(), thinning.axes, strict=True)):
        tensor = operand.type
        raw = stream(index, 5 + which if which else 0, tensor.size)
        values = below(raw, 2 * numbers.r) - numbers.r
        values += values >= 0  # no zeros: a lost zero is not seen
        if not _multiplied(operand) and operation.factors > 1:
            values += numbers.shift
        values = _held(values, tensor.element).reshape(tensor.shape)
        if axes:
            values = values * _mask(tensor.shape, axes, thinning.share, part=thinning.part, parts=thinning.parts)
        made.append(values.astype(dtype_of(tensor.element)))
    return made


def wide_digits(operation: Operation) -> tuple[int, int]:
    """(digits, terms): the wide recipe's significands, and how many terms of a result are not zero, so that their sum
    is exact in the accumulator and in the result whatever its order."""
    room = min(operation.types.accumulator.digits, operation.types.result.digits)
    digits = min(max(element.digits for element in operation.signature.operands[:2]), room - 2)
    addends = operation.addends  # with all digits of their own type, which is the result's
    return digits, min(operation.terms, 2 ** (2 if addends else room - digits) - addends)


def wide(operation: Operation) -> list[Array]:
    """Operands of the wide recipe, as they lie in memory."""
    digits, terms = wide_digits(operation)
    operands = operation.operands()
    factors = [index for index, operand in enumerate(operands) if operand.shared is not None]
    found = []
    for index, operand in enumerate(operands):
        tensor, raw = operand.type, stream(index, 2, operand.type.size)
        room = min(operation.types.accumulator.digits, operation.types.result.digits) - 2
        own = min(digits if _multiplied(operand) else room, tensor.element.digits)
        if tensor.element is ElementType.F8E8M0FNU:
            found.append(_scales(tensor.shape, index).astype(dtype_of(tensor.element)))
            continue
        values = full(raw, own).reshape(tensor.shape)
        one = _held(np.sign(values), tensor.element)
        # What is added to a sum, or multiplied with it, once, has all digits too: one more rounding is the same in any
        # order of summation.
        turn = _turn(tensor.shape, operand.shared, factors.index(index) if index in factors else 0)
        counts = index in factors or (not factors and operand.summed) or not _multiplied(operand)
        values = np.where(turn, values, one) if counts and own > 1 else one
        if operand.summed:
            values = values * _mask(tensor.shape, operand.summed, terms, stride=1)
        found.append(values.astype(dtype_of(tensor.element)))
    return found


def _scales(shape: tuple[int, ...], index: int) -> Array:
    """Powers of two from 2**-120 to 2**120 along the last axis, and for the next operand their inverse."""
    exponents = np.arange(shape[-1]) * 37 % 241 - 120.0
    return np.broadcast_to(2.0 ** (exponents * (-1) ** index), shape)


def _multiplied(operand: Operand) -> bool:
    """Whether it is a factor of a sum's terms; else it is added to the sum, or is its scale."""
    return bool(operand.summed or operand.crossed or operand.shared is not None)


def _turn(shape: tuple[int, ...], axis: int | None, factor: int) -> Array:
    """Where this factor has all digits: at every second index of the axis that both share, the other factor there has
    one digit. Everywhere where they share none."""
    if axis is None:
        return np.ones(shape, bool)
    turn = np.arange(shape[axis]) % 2 == factor
    return np.broadcast_to(turn.reshape([-1 if i == axis else 1 for i in range(len(shape))]), shape)


def random(operation: Operation) -> list[Array]:
    """Operands of the random recipe, as they lie in memory."""
    return [_random_operand(operand, index) for index, operand in enumerate(operation.operands())]


def _held(values: Array, element: ElementType) -> Array:
    """As near to these integers as the type has any: magnitudes where it has no sign, 1 or 2 where powers of two."""
    if element is ElementType.F8E8M0FNU:
        return 1.0 + (values > 0)
    return abs(values) if element.is_unsigned else values


def _mask(
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    share: int,
    stride: int | None = None,
    part: int = 0,
    parts: int = 1,
) -> Array:
    """True for exactly min(terms, share) positions along `axes`, so far apart, by default spread over all. In each part
    and in each line of the other axes they follow those of the last one."""
    terms = prod(shape[axis] for axis in axes)
    if stride is None:
        stride = next(s for s in range(int(terms * 0.618) or 1, 2 * terms + 2) if gcd(s, terms) == 1)
    line = tuple(1 if i in axes else size for i, size in enumerate(shape))
    offsets = ((np.arange(prod(line)) * parts + part) * share).reshape(line)
    positions = np.arange(terms).reshape([size if i in axes else 1 for i, size in enumerate(shape)]) * stride
    return (positions + offsets) % terms < share


def _random_operand(operand: Operand, index: int) -> Array:
    tensor = operand.type
    raw = stream(index, 1, tensor.size)
    return uniform(raw, tensor.element, operand.low, operand.high).reshape(tensor.shape)
