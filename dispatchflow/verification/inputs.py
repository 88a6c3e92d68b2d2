"""Make an operation's inputs by a recipe, with the same bytes on every machine and with every numpy.

A recipe is a way to make inputs whose results show certain errors; docs/verification.md describes the recipes. An
operation may define recipes itself (`Operation.made`). This file has the recipes `exact`, `wide` and `random`;
`operations._range` has the recipe `largest`. Random numbers come from streams that numpy keeps stable (see
`operations._random`). Each operand has its own stream, independent of the tuning."""

from __future__ import annotations

from math import ceil, log2, prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dispatchflow.mlir.types import ElementType
from dispatchflow.operations import Operand, Operation, _range
from dispatchflow.operations._exact import exact_range as exact_range
from dispatchflow.operations._exact import thinnings
from dispatchflow.operations._random import SEED as SEED
from dispatchflow.operations._random import below as below
from dispatchflow.operations._random import dtype_of as dtype_of
from dispatchflow.operations._random import full
from dispatchflow.operations._random import stream as stream
from dispatchflow.operations._random import uniform as uniform
from dispatchflow.operations._range import (
    codes,
    line_powers,
    near_ends,
    one_sided,
    powers,
    scales,
    spans,
    stride,
    surplus,
)

if TYPE_CHECKING:
    from dispatchflow.operations.api import Array

_BOTH = 2

_PARTS = 16
"""Kernels may split a factor with at least this many binary digits (f32, f64) into narrower pieces."""

_PACKED = {element.numpy_name for element in ElementType if element.bits < 8}


def stored(array: Array) -> bytes:
    """Return an array's bytes as the runtime stores them; two 4-bit elements fill a byte, low bits first."""
    if array.dtype.name not in _PACKED:
        return array.tobytes()
    halves = np.ascontiguousarray(array).view(np.uint8).reshape(-1) & 15
    low, high = halves[::2], halves[1::2]
    packed = low.copy()
    packed[: high.size] |= high << 4
    return packed.tobytes()


def read(path: Path, dtype: np.dtype | str, shape: tuple[int, ...] = (-1,)) -> Array:
    """Read an array from a file in the format of the runtime (see `stored`).

    Without a shape, the array is flat. If the file has an odd number of 4-bit elements, the flat array ends with one
    more element: the padding of the last byte."""
    if (element := np.dtype(dtype)).name not in _PACKED:
        return np.fromfile(path, element).reshape(shape)
    pairs = np.fromfile(path, np.uint8)
    elements: Array = np.stack((pairs & 15, pairs >> 4), axis=-1).reshape(-1).view(element)
    return elements if shape == (-1,) else elements[: prod(shape)].reshape(shape)


def made(operation: Operation, recipe: str) -> list[Array]:
    """Return the operands that a recipe makes for an operation."""
    if (own := _range.largest(operation) if recipe == "largest" else operation.made(recipe)) is not None:
        types = (operand.type for operand in operation.operands())
        return [values.astype(dtype_of(tensor.element)) for values, tensor in zip(own, types, strict=True)]
    if recipe.startswith("exact"):
        return exact(operation, int(recipe.removeprefix("exact") or 1) - 1)
    return random(operation) if recipe == "random" else wide(operation, recipe == "wide2")


def exact(operation: Operation, which: int = 0) -> list[Array]:
    """Return the operands of the recipe `exact`, with which no partial sum needs rounding.

    An operation may have several sets of such operands: `which` is 0 for the recipe `exact`, 1 for `exact2`, and so
    on."""
    sets, recipe = thinnings(operation), 5 + which if which else 0
    thinning = sets[which]
    made = []
    for index, (operand, axes, span) in enumerate(
        zip(operation.operands(), thinning.axes, spans(operation), strict=True)
    ):
        tensor, multiplied = operand.type, _multiplied(operand)
        if multiplied and not tensor.element.is_float:
            values = one_sided(stream(index, recipe, tensor.size), operand, operation)
        elif multiplied and thinning.balanced:
            values = _balanced(operation, operand)
        else:
            values = _small(stream(index, recipe, tensor.size), operand, operation, thinning.clipped)
            if operation.addends and not multiplied and not tensor.element.is_float:
                values = near_ends(values, operand, operation, thinning.clipped if len(sets) > 1 else None)
        if any(span):
            values = values * powers(tensor.shape, operand.lines, span)
        if axes:
            values = values * _mask(tensor.shape, axes, thinning.share, part=thinning.part, parts=thinning.parts)
        made.append(values.astype(dtype_of(tensor.element)))
    return made


def _small(raw: Array, operand: Operand, operation: Operation, clipped: bool) -> Array:
    """Return random nonzero integers for an operand, such as -3 to 3."""
    numbers = exact_range(operation)
    values = below(raw, 2 * numbers.r) - numbers.r
    values += values >= 0  # no zeros: a lost zero would not be noticed
    if not _multiplied(operand) and operation.factors > 1:
        # An integer bias is always shifted up: if `clipped`, `near_ends` makes positive sums wrap to negative ones.
        # Before a relu or gelu, the shift makes most sums positive, or negative if `clipped`.
        values += -numbers.shift if clipped and operand.type.element.is_float else numbers.shift
    return _held(values, operand.type.element).reshape(operand.type.shape)


def _balanced(operation: Operation, operand: Operand) -> Array:
    """Return an array of 1 and -1 for `operand`.

    The terms of a sum are then 1 or -1, and usually add up to 3 or 4."""
    shape, terms, axes = operand.type.shape, operation.terms, operand.summed or operand.crossed
    # The signs are in a factor whose lines have all terms of a sum: the weights of a convolution, never its image.
    if operand != max(filter(_multiplied, operation.operands()), key=lambda each: (_line(each), each.type.size)):
        return np.ones(shape, np.int64)
    # With padding, a sum at the edge of an image may be another number than 3 or 4.
    return np.where(_mask(shape, axes, (terms + 4) // 2), 1, -1)


def _line(operand: Operand) -> int:
    """Return the product of the sizes of an operand's reduction axes."""
    return prod(operand.type.shape[axis] for axis in operand.summed or operand.crossed)


def wide_digits(operation: Operation) -> tuple[int, int]:
    """Return how many binary digits a factor of `wide` may have, and how many nonzero terms a sum.

    With the limits (22, 4), sums in f32 are exact. For example, a sum adds four 22-bit integers, multiplied by 1
    or -1."""
    room = min(operation.types.accumulator.digits, operation.types.result.digits)
    # In most products one factor is a power of two, so that the product has only the other factor's digits.
    digits = min(max(element.digits for element in operation.signature.operands[:2]), room - 2)
    addends = operation.addends  # they have the result's type, and all its digits
    return digits, min(operation.terms, 2 ** (2 if addends else room - digits) - addends)


def wide(operation: Operation, exchanged: bool = False) -> list[Array]:
    """Return operands that show whether a kernel reads inputs in a narrower type, such as tf32.

    In most terms of a sum, one factor has many binary digits. The other factor is plus or minus a power of two, so that
    the product has no more digits. `exchanged` exchanges the roles of the factors."""
    digits, _ = wide_digits(operation)
    # If few results use an element, all numbers are positive before a relu, so that it hides no result.
    positive = operation.compares_bits("wide") and any(thinning.clipped for thinning in thinnings(operation))
    operands, coded = operation.operands(), _all_codes(operation)
    axes, share = wide_places(operation)
    factors = [index for index, operand in enumerate(operands) if operand.shared is not None]
    found = []
    for index, operand in enumerate(operands):
        tensor, raw = operand.type, stream(index, 2, operand.type.size)
        room = min(operation.types.accumulator.digits, operation.types.result.digits) - 2
        own = min(digits if _multiplied(operand) else room, tensor.element.digits)
        if tensor.element is ElementType.F8E8M0FNU:
            found.append(scales(tensor.shape, index, operands[0].type).astype(dtype_of(tensor.element)))
            continue
        values = full(raw, own).reshape(tensor.shape)
        one = _held(np.sign(values), tensor.element)
        if coded and index in factors:
            line = line_powers(tensor, operand.lines, coded)
            values, one = codes(raw.reshape(tensor.shape), tensor.element, line, coded), one * line
        # An operand that is added to a sum, or multiplied with it, has all digits too. The result is then rounded once,
        # equally in any order of summation.
        if operand.shared is not None and own > 1:
            factor, axis = factors.index(index), operand.shared
            turn = _turn(tensor.shape[axis], digits)
            turn = 1 - turn if exchanged else turn
            whole = (turn == factor).reshape([-1 if i == axis else 1 for i in range(values.ndim)])
            values, both = np.where(whole, values, one), np.flatnonzero(turn == _BOTH)
            # The factor 1/2 keeps these products below 2, as the others are; they have no more digits.
            picked = raw.reshape(tensor.shape).swapaxes(0, axis)[both]
            values.swapaxes(0, axis)[both] = full(picked, digits // 2) / (1 + factor)
        elif own == 1 or (_multiplied(operand) and (factors or bool(operand.summed) is exchanged)):
            values = one
        values = abs(values) if positive else values
        if axes[index]:
            values = values * _mask(tensor.shape, axes[index], share)
        found.append(values.astype(dtype_of(tensor.element)))
    return found


def wide_places(operation: Operation) -> tuple[list[tuple[int, ...]], int]:
    """Return the axes along which each operand gets zeros, and the number of nonzero elements per line.

    For `A @ B`, the result `([(1,), ()], 4)` means that each row of A has 4 nonzero elements. B has no zeros."""
    operands, (_, terms) = operation.operands(), wide_digits(operation)
    found: list[tuple[float, list[tuple[int, ...]], int]] = [(0, [()] * len(operands), 0)]
    for name in ("summed", "crossed"):
        axes = [getattr(operand, name) for operand in operands]
        thinned = [(operand.type, along) for operand, along in zip(operands, axes, strict=True) if along]
        if thinned and (name == "summed" or len(thinned) == 1):
            tensor, along = thinned[0]
            length = prod(tensor.shape[axis] for axis in along)
            # Zeros limit the nonzero terms of a sum to `terms`, so that the sum is exact.
            share = min(terms * length // operation.terms, length)
            found.append((min(share * (tensor.size // length), length) / length, axes, share))
    # Choose the factor whose lines together have nonzero elements at more of the indices `k`.
    _, chosen, share = max(found, key=lambda one: one[0])
    return chosen, share


def _all_codes(operation: Operation) -> int:
    """Return how many different exponents the 8-bit floats of one line may have.

    A line is, for example, a row of A in A·B. The result is 0 if the factors are not 8-bit floats. It is also 0 if
    the accumulator or the result has too few binary digits, if an operand is added to the sums, or if a relu or gelu is
    applied to them."""
    (digits, terms), types = wide_digits(operation), operation.types
    narrow = all(element.is_float and element.bits == 8 and element.digits <= digits for element in types.operands[:2])
    # 8-bit floats then have only some of their significands (see `full`).
    if not narrow or operation.addends or operation.clips:
        return 0
    # Kernels may decode 8-bit floats with a table: the exponents, with all significands, test all of its parts.
    # With this many exponents in a line, such as a row of A in A·B, all sums are exact.
    return max(1, min(types.accumulator.digits, types.result.digits) - digits - ceil(log2(terms)) + 1)


def _multiplied(operand: Operand) -> bool:
    """Return True for an operand such as A or B in `A @ B`.

    Returns False for a bias or for scales."""
    return bool(operand.summed or operand.crossed or operand.shared is not None)


def _turn(size: int, digits: int) -> Array:
    """Choose for each k which factor of the products A[i, k] · B[k, j] has `digits` binary digits.

    The index k is below `size`. The result is 0 for A, 1 for B, and 2 if each factor has half of the digits. In the
    first two cases, the other factor is plus or minus a power of two."""
    # Only types with many digits have `_BOTH`: their products may be computed from products of parts of the factors.
    #
    # Each index has a rank, and `_mask` selects indices with successive ranks. The answers are the Thue-Morse sequence
    # in the order of ranks, so that even a sum of few nonzero terms has different answers. The sequence has no period:
    # each factor gets odd and even indices, and indices in all places of a vector or a tile.
    rank = np.arange(size) * stride(size) % size
    turn: Array = np.sum([rank >> bit & 1 for bit in range(size.bit_length())], axis=0) % 2
    return np.where(rank % 5 == 3, _BOTH, turn) if digits >= _PARTS else turn  # no vector or tile has 5 elements


def random(operation: Operation) -> list[Array]:
    """Return random operands (the recipe `random`), in the shapes of `operation.operands()`."""
    made = [_random_operand(operand, index) for index, operand in enumerate(operation.operands())]
    if operation.multiplies and operation.clips:
        for values, operand in zip(made, operation.operands(), strict=True):
            if not _multiplied(operand) and (bits := surplus(operand, operation)):
                values >>= bits
    return made


def _held(values: Array, element: ElementType) -> Array:
    """Return the integers `values`, adapted to what the element type can represent.

    Unsigned types get the magnitudes. F8E8M0FNU has only powers of two: it gets 2 for positive integers, else 1."""
    if element is ElementType.F8E8M0FNU:
        return 1.0 + (values > 0)
    return abs(values) if element.is_unsigned else values


def _mask(shape: tuple[int, ...], axes: tuple[int, ...], share: int, part: int = 0, parts: int = 1) -> Array:
    """Return a mask in which the number of true elements in each line along `axes` is `share`.

    The elements of a line differ only in their indices on `axes`. For a matrix and the axes (1,), a line is a row."""
    # `terms` is the number of positions of a line. Position i is true if (i · stride + offset) mod terms < share,
    # with a stride that spreads the true positions. The offset is (line number · parts + part) · share. Therefore the
    # parts of a line have different true positions, and so do neighboring lines.
    terms = prod(shape[axis] for axis in axes)
    line = tuple(1 if i in axes else size for i, size in enumerate(shape))
    offsets = ((np.arange(prod(line)) * parts + part) * share).reshape(line)
    positions = np.arange(terms).reshape([size if i in axes else 1 for i, size in enumerate(shape)])
    positions = positions * stride(terms)
    return (positions + offsets) % terms < share


def _random_operand(operand: Operand, index: int) -> Array:
    tensor = operand.type
    raw = stream(index, 1, tensor.size)
    return uniform(raw, tensor.element, operand.low, operand.high).reshape(tensor.shape)
