"""Choose verification inputs near the ends of the ranges of their element types."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, frexp, gcd, log2, prod
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from dispatchflow.operations._exact import exact_range, is_factor
from dispatchflow.operations._random import below, dtype_of, stream

if TYPE_CHECKING:
    from dispatchflow.operations.api import Array, ElementType, Operand, Operation, TensorType

_FURTHEST = 300
"""The largest magnitude of a binary exponent. With larger ones, squares of f64 would be infinite."""

Span = tuple[int, int]
"""A range of binary exponents: the smallest and the largest."""


def exponents(element: ElementType, subnormal: bool = False) -> Span:
    """Return the binary exponents of a type's smallest positive number and of its largest power of two.

    If `subnormal` is false, subnormal numbers do not count. The result is limited to -300 … 300."""
    return _exponents(element, 1, subnormal)


def lowest(element: ElementType) -> float:
    """Return the lowest finite number of a floating-point type."""
    info: Any = ml_dtypes.finfo(dtype_of(element))  # type: ignore[no-untyped-call]
    return float(info.min)


def _exponents(element: ElementType, times: int, subnormal: bool) -> Span:
    """Return the smallest and the largest exponent, as `exponents` does.

    The largest exponent e is limited so that `times` · 2**e is finite."""
    info: Any = ml_dtypes.finfo(dtype_of(element))  # type: ignore[no-untyped-call]
    least = info.smallest_subnormal if subnormal else info.smallest_normal
    return max(round(log2(float(least))), -_FURTHEST), min(floor(log2(float(info.max) / times)), _FURTHEST)


def spans(operation: Operation) -> list[Span]:
    """Return for each operand the smallest and largest exponent of the powers of two that scale its lines.

    The recipe `exact` multiplies each line of an operand, such as a row of A in A·B, by a power of two. If the two
    exponents are equal, all elements have the same power. For an operand that is not scaled, both exponents are 0."""
    # All terms of a result come from one line of each operand, so the result is multiplied by these lines' powers.
    # The ranges are so small that the result is normal and finite in the accumulator and in its own type.
    #
    # If the operation adds another operand to a sum, or clips the sum (as a relu does), all elements of a factor are
    # multiplied by one large power, and the added operand by the product of these powers. A result is then multiplied
    # by this product, and shows a clamp of large numbers, or a type of a smaller range. A gelu's operands are not
    # scaled, because gelu(2x) is not 2 gelu(x).
    operands, types, numbers = operation.operands(), operation.types, exact_range(operation)
    found, one_power = [(0, 0)] * len(operands), bool(operation.addends or operation.clips)
    if not types.accumulator.is_float or (one_power and not operation.compares_bits("exact")):
        return found
    scaled = [i for i, operand in enumerate(operands) if (is_factor(operand) if one_power else operand.lines)]
    ends = [exponents(element) for element in (types.accumulator, types.result)]
    largest = min(operation.terms, max(numbers.safe, 1)) * numbers.r**operation.factors
    largest += operation.addends * (numbers.r + numbers.shift)
    low, high = max(least for least, _ in ends), min(most for _, most in ends) - ceil(log2(largest))
    for left, index in zip(range(len(scaled), 0, -1), scaled, strict=True):
        element = operands[index].type.element  # no hardware flushes subnormal operands of 8 or fewer bits to 0
        least, most = _exponents(element, numbers.r, subnormal=element.bits <= 8)
        span = min(0, max(least, ceil(low / left))), max(0, min(most, high // left))
        found[index], low, high = span, low - span[0], high - span[1]
    if one_power:
        total = sum(found[index][1] for index in scaled)
        for index, operand in enumerate(operands):
            if index in scaled:
                found[index] = found[index][1], found[index][1]
            elif not operand.lines:  # the operand is added; one with lines multiplies the sums
                found[index] = total, total
    return found


def line_numbers(shape: Sequence[int], lines: Sequence[int]) -> Array:
    """Return a number, counted from 0, for each line of an array with the shape `shape`.

    All elements of a line have the same index on each axis in `lines`. For example, `line_numbers((3, 4), (0,))`
    numbers the rows of a matrix, and returns [[0], [1], [2]]. The result broadcasts to `shape`."""
    sizes = [size if axis in lines else 1 for axis, size in enumerate(shape)]
    return np.arange(prod(sizes)).reshape(sizes)


def powers(shape: Sequence[int], lines: Sequence[int], span: Span) -> Array:
    """Return a power of two for each line of an array with the shape `shape`.

    The axes `lines` define what a line is (see `line_numbers`). The exponents are numbers in the range `span`, in a
    mixed order. For example, `powers((4, 5), (0,), (0, 3))` returns [[8], [1], [2], [4]], one power for each row.
    The result broadcasts to `shape`."""
    count = span[1] - span[0] + 1
    sizes = [size if axis in lines else 1 for axis, size in enumerate(shape)]
    cycle = 2.0 ** (span[1] - np.arange(count) * (int(0.618 * count) | 1) % count)
    return np.resize(cycle, prod(sizes)).reshape(sizes)


def line_powers(tensor: TensorType, lines: Sequence[int], count: int) -> Array:
    """Return powers of two for a tensor, one for each line (see `line_numbers`).

    For a tensor of the shape [m, n] and `lines` (0,), the result has the shape [m, 1]. The tensor's type represents
    each returned power and the next `count` - 1 larger powers of two, unless the type has fewer powers."""
    (least, _), (_, most) = (_exponents(tensor.element, 1, subnormal) for subnormal in (True, False))
    # The type represents `count` powers of two from each of these powers on, unless it has fewer.
    return powers(tensor.shape, lines, (least, max(least, most - count + 1)))


def codes(raw: Array, element: ElementType, line: Array, count: int) -> Array:
    """Return numbers of a narrow type, with random signs, significands and exponents.

    `line` has a power of two for each number. The exponent of the number is the exponent of this power plus a random
    integer from 0 to `count` - 1. Numbers above the type's range become its largest number."""
    info: Any = ml_dtypes.finfo(dtype_of(element))  # type: ignore[no-untyped-call]
    significand = 1 + below(raw, 2 ** (element.digits - 1)) * element.unit * 2
    size = line * significand * (2.0 ** np.arange(count))[below(raw << np.uint64(32), count)]
    smallest = float(info.smallest_subnormal)
    values: Array = np.minimum(np.floor(size / smallest) * smallest, float(info.max))
    return np.where(raw & np.uint64(1), -values, values)


def one_sided(raw: Array, operand: Operand, operation: Operation) -> Array:
    """Return random integers for an operand that is a factor of a product.

    Their magnitudes are in the upper half of the type's range. The integers of a line, such as a row of A in A·B,
    usually have the same sign."""
    # The first, third, fifth, … lines are negative. If the epilogue clips negative sums, all lines are negative, so
    # that products are positive. Unsigned integers are never negative.
    #
    # If the result has at least twice the operand's bits, the second half of each negative line consists of the type's
    # lowest number; this half begins at an even position. The sum of two adjacent products of lowest numbers overflows
    # an integer with twice the operand's bits. If the epilogue clips sums, only every second pair in this half consists
    # of lowest numbers: where `random` is clipped, no other inputs show which elements are read. If the result has less
    # than twice the operand's bits, all elements of the first operand are odd, because products of even numbers may
    # wrap to 0 (6 · 8 in i4).
    #
    # A quantized operand must be far from its zero point. If the zero point is negative, the first, third, … lines are
    # positive, except the last eighth of each, and begin with the type's largest number; the other lines are negative.
    element, shape = operand.type.element, operand.type.shape
    half, doubles = 2 ** (element.digits - 1), 2 * element.bits <= operation.types.result.bits
    odd = operation.multiplies and not doubles and operand == operation.operands()[0]
    below_0 = _has_negative_zero_point(operand, operation)
    values: Array = (half + below(raw, min(half, 2**31))).reshape(shape) | odd
    if element.is_unsigned:
        return values
    negative = -values if odd else -1 - values
    if operation.multiplies and doubles:
        places = line_numbers(shape, [axis for axis in range(len(shape)) if axis not in operand.lines])
        pairs = (places - places.size // 4 * 2) // 2
        lowest = (pairs >= 0) & (pairs % (2 if operation.clips else 1) == 0)
        negative = np.where(lowest, -(2**element.digits), negative)
        if below_0:
            values = np.where(places >= (places.size - places.size // 8) // 2 * 2, -(2**element.digits), values)
            values = np.where(places == 0, 2**element.digits - 1, values)
    if operation.clips and not any(other.is_unsigned for other in operation.signature.operands):
        return negative
    return np.where(line_numbers(shape, operand.lines) % 2 != below_0, values, negative)


def _has_negative_zero_point(operand: Operand, operation: Operation) -> bool:
    word = "input_zp" if operand == operation.operands()[0] else "weight_zp"
    return bool(word in operation.options and operation.option(word) < 0)


def largest(operation: Operation) -> list[Array]:
    """Return the inputs of the recipe `largest`, which detects kernels that sum in too few bits.

    Each element of a factor, such as A or B in A·B, is at one end of its type's range, or 1 away from it. All
    elements of other operands are 0, or 1 if they multiply the sums (`epilogue=scale`). But in a bias before a relu,
    every second element is as large as it may be without a sum that wraps."""
    # Sums in too few bits are right if most terms are much smaller than the largest possible one, as in the other
    # recipes. Integers of 8 bits have two values, so that sums are odd, too: f32 represents large sums that are
    # multiples of a power of two. Sums of smaller integers are far below 2**24, and are as large as possible. A
    # quantized operand is far from its zero point. All products are positive if a relu follows.
    unsigned, made = any(element.is_unsigned for element in operation.signature.operands), []
    for index, operand in enumerate(operation.operands()):
        element = operand.type.element
        end = 2**element.digits - 1
        near = below(stream(index, 5, operand.type.size), 2 if element.bits >= 8 else 1).reshape(operand.type.shape)
        near = near * (line_numbers(operand.type.shape, operand.lines) % 2 == 0)
        upper = element.is_unsigned or (operation.clips and unsigned) or _has_negative_zero_point(operand, operation)
        values = end - near if upper else near - end - 1
        if not is_factor(operand):
            values[...] = 1 if operand.lines else 0  # only an operand that multiplies has lines
            last = operand == operation.operands()[-1]
            if operation.clips and last and (room := _room(operation)) > 99:
                values.reshape(-1)[::2] = room - below(stream(index, 5, values.size)[::2], 99)
        made.append(values)
    return made


def near_ends(values: Array, operand: Operand, operation: Operation, clipped: bool | None) -> Array:
    """Return the integers `values` moved near the ends of the accumulator's range.

    For example, if `operand` is an i32 bias of i32 sums without a relu, 5 usually becomes 2**31 - 1 - 5. Likewise, -5
    usually becomes -2**31 + 5."""
    # The operand is added to sums. Some of these additions then wrap, and a kernel whose additions saturate gives
    # another result. The first integer is near the end that has the sign of the first sum (see `one_sided`); each other
    # integer is near the end that has its own sign. An operand whose type is not the accumulator's is not changed.
    #
    # If the epilogue clips negative sums, a sum that wraps becomes 0 and shows no other error. Integers are then moved
    # to the upper end: in a single set of exact inputs (`clipped` is None) every third one; if there are more sets, all
    # integers of the last operand, in the set with clipped sums. In a single set, every third integer of the last
    # operand is as large as it may be without a sum that wraps, so that some results are large numbers.
    element, factors = operand.type.element, operation.signature.operands[:2]
    if element is not operation.types.accumulator:
        return values
    largest, order = 2**element.digits - 1, np.arange(values.size).reshape(values.shape)
    if operation.clips:
        last = operand == operation.operands()[-1]
        chosen = order % 3 == 1 if clipped is None else clipped and last
        found: Array = np.where(chosen, largest - abs(values), values)
        room = _room(operation)
        return np.where(order % 3 == 2, room - abs(values), found) if last and clipped is None and room > 0 else found
    upper = np.where(order == 0, sum(not factor.is_unsigned for factor in factors) % 2 == 0, values > 0)
    moved: Array = np.where(upper, largest - abs(values), abs(values) - 1 - largest)
    return moved


def _room(operation: Operation) -> int:
    """Return the largest integer to which any sum of products may be added without wrapping, or 0 or less."""
    types = operation.signature
    products = int(2 ** sum(each.digits for each in types.operands[:2]))
    return int(2**types.accumulator.digits) - 1 - operation.terms * products


def surplus(operand: Operand, operation: Operation) -> int:
    """Return how far to shift the random integers of a bias to the right, in bits.

    The bias is added to sums before a relu. Without the shift, the bias might decide the signs of all sums. The
    result is 0 if the bias is floating-point, or if sums may wrap."""
    digits, more = sum(element.digits for element in operation.signature.operands[:2]), log2(max(operation.terms, 1))
    room = operand.type.element.digits
    wraps = operand.type.element.is_float or digits + more >= room
    return 0 if wraps else max(room + 3 - digits - ceil(more / 2), 0)


def stride(size: int) -> int:
    """Return a step of about 0.618 * `size` that has no factor in common with `size`.

    The multiples of the step, modulo `size`, therefore have all values 0 … size - 1, and the first n of them are spread
    over the whole range."""
    return next(step for step in range(max(int(size * 0.618), 1), size + 2) if gcd(step, size) == 1)


def are_lowered(numbers: Array) -> Array:
    """Return an array of booleans: whether `lowered` moves the line with each of these line numbers."""
    found: Array = numbers % 3 == 0
    return found


def lowered(values: Array, lines: Sequence[int], element: ElementType, unit: Array | float = 1.0) -> Array:
    """Return `values` with the lines 0, 3, 6, … moved near the lowest number of the type `element`.

    The axes `lines` define what a line is (see `line_numbers`). If `lines` is (0,), each row is a line. For example,
    the i8 rows [[-3, -1], [-2, -1]] become [[-128, -126], [-2, -1]]: the smallest of all `values`, -3, becomes the
    lowest number, -128. This subtracts 125 from the row; the second row is not moved."""
    # A line is a slice with fixed indices on the axes `lines`. All of `values` are negative.
    # The first line is moved, the next two are not, and so on. The smallest of `values` becomes the type's lowest
    # number, and a number that is larger by n · `unit` becomes the n-th number above the lowest one. Even the largest
    # number of a moved line is then lower than nearly any number with which a wrong kernel may begin a maximum. `unit`
    # may be an array with a number for each line; if this number is infinite, all numbers of a moved line become the
    # lowest one.
    end, step = -(2.0**element.digits), 1.0
    if element.is_float:
        end = lowest(element)
        step = 2.0 ** (frexp(end)[1] - element.digits)
    far, smallest = are_lowered(line_numbers(values.shape, lines)), values.min()
    moved: Array = values - smallest
    moved *= np.where(far, step / unit, 1.0)
    moved += np.where(far, end, smallest)
    return moved


def scales(shape: tuple[int, ...], index: int, scaled: TensorType) -> Array:
    """Return the scales of A or B in an MX matrix product A·B: powers of two, in an array of `shape`.

    `shape` is [m, k / 32] or [n, k / 32]. `scaled` is the type of A, even for the scales of B."""
    # Where the scales of A are larger, those of B are smaller. All terms of a result have the same product of two
    # scales, from 2**-72 to 2**72, so that their sum is exact. A block's sum times one scale is in f32's range, too.
    least, most = exponents(scaled.element, subnormal=True)
    largest = 2 * (most + 1) + ceil(log2(scaled.shape[-1]))
    reach = min(110, 127 - largest, 126 + 2 * least) - 36
    steps = np.where(np.arange(shape[-1]) == 1, reach, np.arange(shape[-1]) * 37 % (2 * reach + 1) - float(reach))
    return np.broadcast_to(2.0 ** (steps * (-1) ** index), shape) * powers(shape, (0,), (-36, 36))
