"""Make inputs for operations that compute the maximum of a line or of two elements.

A line is the set of elements that become one result, such as a row. It has one largest element, and neighboring lines
have different largest elements."""

from __future__ import annotations

import numpy as np

from dispatchflow.operations._random import below, dtype_of, stream, uniform
from dispatchflow.operations._range import exponents, powers, stride
from dispatchflow.operations.api import Array, ElementType

LEVELS = 30
"""The largest elements of lines fall from line to line, and begin again after this number of lines.

It is a multiple of 3, because of `_range.lowered`: where the largest element rises in the recipe `random`, the line is
near the lowest number in the recipe `exact`, and the largest element falls there. A maximum that is not reset between
two lines is then wrong in one of the two recipes, whichever lines they are."""


def shares(lines: Array) -> Array:
    """Return a factor between 0.55 and 1 for each line, by which its numbers are multiplied.

    `lines` is an array of line indices. The factor falls from line to line, and begins again with 1 after `LEVELS`
    lines."""
    found: Array = 1 - lines % LEVELS / 64
    return found


def heights(lines: Array, element: ElementType) -> Array:
    """Return a power of two for each line of floats, by which the numbers of the line are multiplied.

    The first three of `LEVELS` lines get the largest power of two that `exponents` admits, so that a clamp of maxima
    shows; the other lines get 1."""
    return np.where(lines % LEVELS < 3, 2.0 ** exponents(element)[1], 1.0)


def places(lines: int, length: int, forward: bool) -> Array:
    """Return the place of the largest element in each of `lines` lines of `length` elements.

    With `forward`, the place begins at the last element in the first line. From line to line, it moves forward by about
    0.618 of a line and wraps around. Without `forward`, it begins at the first element and moves backward. Each element
    has its turn if there are `length` lines."""
    steps = np.arange(lines) * stride(length)
    return (length - 1 + steps if forward else -steps) % length


def falling(raw: Array, element: ElementType) -> Array:
    """Return an array [lines, length] of random numbers with one largest element in each line.

    `raw` has a raw number for each element. The largest element of a line is `shares` · `heights` for floats. For
    integers it is `shares` times the type's largest number, rounded down."""
    lines, length = raw.shape
    line = np.arange(lines)
    share = shares(line)
    largest, step = (
        (share, 2.0**-element.digits) if element.is_float else (np.floor((2.0**element.digits - 1) * share), 1.0)
    )
    values = uniform(raw, element).astype(np.float64) * share[:, None]
    values = values.astype(dtype_of(element)).astype(np.float64) if element.is_float else np.floor(values)
    values = np.minimum(values, (largest - step)[:, None])
    values[line, places(lines, length, forward=False)] = largest
    return values * heights(line, element)[:, None] if element.is_float else values


def pairs(recipe: str, element: ElementType, count: int) -> list[Array]:
    """Return `count` pairs of numbers for the recipe `random` or `exact`, as two arrays.

    If the first number of a pair is larger in `random`, the second number is larger in `exact`, and vice versa. In one
    of the two recipes, both numbers are negative; in the other, their signs differ. But in every eighth pair of
    `exact`, both numbers are positive. A kernel that copies one of the numbers, reads it as 0, or compares numbers
    without their signs therefore gives a wrong result."""
    x, y = (uniform(stream(index, 1, count), element, -4.0, 4.0).astype(np.float64) for index in (0, 1))
    turned = np.where((x > 0) & (y > 0), -1.0, 1.0)
    x, y = x * turned, y * turned
    if recipe == "random":
        return [x, y]
    # The magnitudes are integers from 1 to 15, different ones in each pair. Floats are multiplied by powers of two over
    # the type's range, so that a clamp or a flush to 0 changes the result.
    small = 1 + below(stream(0, 0, count), 14)
    large = small + 1 + below(stream(1, 0, count), 15) % (15 - small)
    least, most = exponents(element) if element.is_float else (0, 4)
    power = powers((count,), (0,), (least, most - 4))
    mixed, positive = (x < 0) & (y < 0), np.arange(count) % 8 == 3
    greater = np.select([positive, mixed], [large, small], -small) * power
    lesser = np.where(positive, small, -large) * power
    return [np.where(x < y, greater, lesser), np.where(x < y, lesser, greater)]
