"""Check whether an operation's verification would detect errors in a kernel.

If an error that changes results would not be detected, the verdict is `mistrusted`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dispatchflow.errors import ToolError
from dispatchflow.mlir.types import ElementType
from dispatchflow.operations import Operation
from dispatchflow.operations._exact import FEW
from dispatchflow.verification import inputs, reference, verdict

if TYPE_CHECKING:
    from dispatchflow.operations.api import Array

_PLACES, _FEWER = 8, 2
_LARGE = 2**22
"""An operand with at least this many elements counts as large.

The reference is computed again for each element that is set to zero. To save time, only `_FEWER` elements of a large
operand are set to zero, instead of `_PLACES`."""

_RESULTS = 32
"""The size to which `excerpt` usually reduces larger dims that are not summed, such as m and n of A·B."""

_LINES = 8
"""`_middle` needs an axis of at least this size, and operands with at least this number of lines.

A line is, for example, a row of A in A·B. With the recipe `wide`, a line may have few nonzero elements. With a
shorter axis or fewer lines, it is possible that `_middle` changes none of the nonzero elements."""

_STREAM = 4
"""The number of the random stream that chooses where errors are planted; see `_random.stream`."""


class Spoilt(NamedTuple):
    """An error to plant in an operand. `operand` is the operand's number.

    `spoil` is a function that returns a copy of the operand with the error."""

    words: str
    operand: int
    spoil: Callable[[Array], Array]


def unseen(operation: Operation) -> list[str]:
    """Return the errors of a kernel that verification would not detect, such as `operand 0 read as zeros`.

    Errors that do not change the result are left out. To save time, a large operation is replaced by an operation
    with fewer results (`excerpt`)."""
    try:
        return _unseen(excerpt(operation))
    except ToolError:  # a reference that works only for the original sizes
        return _unseen(operation)


def _unseen(part: Operation) -> list[str]:
    recipes = [_Recipe(part, recipe) for recipe in part.recipes]
    found: dict[str, None] = {}
    for error in errors(part):
        if error.words not in found and _overlooked(error, recipes):
            found[error.words] = None
    return list(found)


def _overlooked(error: Spoilt, recipes: Sequence[_Recipe]) -> bool:
    """Return True if an error changes a result, and every comparison of results still passes."""
    matters = False
    for recipe in recipes:
        if (seen := recipe.sees(error)) is True:
            return False
        matters |= seen is not None
    return matters


def excerpt(operation: Operation) -> Operation:
    """Return a smaller operation with the same sums but fewer results, to save time.

    For example, an f32 matmul with the sizes 512x512x512 (m, n, k) becomes 32x32x512."""
    # Parallel dims are those that can be smaller without changing the terms of a sum (`Operation.parallel`). If there
    # are three or more, the first one counts as a batch, and its size becomes two. If the inputs of the recipe `exact`
    # have zeros, the other dims may stay larger than `_RESULTS`, so that each term contributes to at least one result.
    windows = -(-operation.terms // max(inputs.exact_range(operation).safe, 1))
    most = max(_RESULTS, windows * (FEW if operation.clips else 1))
    batched = len(operation.parallel) > 2
    for dim in operation.parallel:
        index, size = operation.dims.index(dim), 2 if batched and dim == operation.parallel[0] else most
        if operation.sizes[index] > size:
            smaller = replace(operation, sizes=(*operation.sizes[:index], size, *operation.sizes[index + 1 :]))
            operation = operation if smaller.illegal("llvm-cpu") else smaller
    return operation


def errors(operation: Operation) -> Iterator[Spoilt]:
    """Yield errors of a kernel that verification must detect, such as an operand that is read as zeros."""
    # Errors in single results are not planted: the recipes `random` and `exact` exist to find them.
    for index, operand in enumerate(operation.operands()):
        shape, element = operand.type.shape, operand.type.element
        whose = f"operand {index}"
        yield Spoilt(f"{whose} read as zeros", index, np.zeros_like)
        places = _PLACES if operand.type.size < _LARGE else _FEWER
        raw = inputs.stream(index, _STREAM, places + len(shape))
        for axis, size in enumerate(shape):
            lines = {size - 1, int(inputs.below(raw[axis : axis + 1], size)[0])} if size > 1 else ()
            for line in lines:
                yield Spoilt(f"{whose} without one line of axis {axis}", index, partial(_without, axis=axis, line=line))
        for place in dict.fromkeys(inputs.below(raw[len(shape) :], operand.type.size).tolist()):
            yield Spoilt(f"{whose} without one element", index, partial(_without_element, place=place))
        if element.digits > 1:
            words = f"{whose} in {element.digits // 2} of its {element.digits} digits"
            yield Spoilt(words, index, partial(halved, element=element))
            if operand.shared is not None and shape[operand.shared] >= _LINES and _spread(operation):
                middle = partial(_middle, axis=operand.shared, element=element)
                yield Spoilt(f"{words} at some places of axis {operand.shared}", index, middle)


def _without(values: Array, axis: int, line: int) -> Array:
    values = values.copy()
    values.swapaxes(0, axis)[line] = 0
    return values


def _without_element(values: Array, place: int) -> Array:
    values = values.copy()
    values.reshape(-1)[place] = 0
    return values


def _spread(operation: Operation) -> bool:
    """Return whether the operands of the recipe `wide` have enough lines for `_middle` (see `_LINES`)."""
    if not operation.has_wide:
        return False
    thinned = [
        operand.type.size // prod(operand.type.shape[axis] for axis in axes)
        for operand, axes in zip(operation.operands(), inputs.wide_places(operation)[0], strict=True)
        if axes
    ]
    # Lines have their nonzero elements at different indices: with `_LINES` lines, `_middle` changes some of these.
    return min(thinned, default=0) >= _LINES


def _middle(values: Array, axis: int, element: ElementType) -> Array:
    """Return a copy in which some elements along `axis` are rounded to half of their binary digits.

    If the axis has 16 elements, these are the elements 3, 5, ..., 13."""
    values = values.copy()
    lines, size = values.swapaxes(0, axis), values.shape[axis]
    places = slice(size // 8 | 1, size - size // 8, 2)
    lines[places] = halved(lines[places], element)
    return values


def halved(values: Array, element: ElementType) -> Array:
    """Return `values` with half of the binary digits of their type, `element`.

    For example, f32 is rounded to 12 of 24 digits. Integers are truncated: the low 4 bits of an i8 become 0."""
    digits = element.digits // 2
    if not element.is_float:
        lost = element.digits - digits
        kept: Array = values >> lost << lost
        return kept
    significand, exponent = np.frexp(values)
    with np.errstate(over="ignore"):  # the largest numbers of f64 are rounded to infinity
        rounded: Array = np.ldexp(np.round(significand * 2.0**digits), exponent - digits)
    return rounded


class _Recipe:
    """The inputs that one recipe makes for an operation, and the expected result.

    Inputs and result are computed on first use."""

    def __init__(self, operation: Operation, recipe: str) -> None:
        self._operation, self._recipe = operation, recipe

    @cached_property
    def _made(self) -> tuple[list[Array], Array, tuple[Array, ...]]:
        """Return (operands, expected result, arrays with which results are compared).

        The operands and the expected result are float64 or int64. If bits are compared, results are compared with one
        array: the expected result, converted to the element type of a kernel's result. Otherwise results are compared
        with (reference, tolerance) from `reference.bounds`."""
        operation, narrow = self._operation, inputs.made(self._operation, self._recipe)
        operands, value = reference.widened(narrow), reference.unrounded(operation, narrow)
        if operation.compares_bits(self._recipe):
            return operands, value, (value.astype(inputs.dtype_of(operation.types.result)),)
        return operands, value, reference.bounds(operation, narrow, self._recipe)

    def sees(self, error: Spoilt) -> bool | None:
        """Return whether the verification with this recipe detects a planted error.

        Returns None if the results of this recipe are the same with and without the error."""
        operands, right, wanted = self._made
        spoilt = list(operands)
        # The reference of the spoilt operands stands for the result of a kernel with the error.
        spoilt[error.operand] = error.spoil(operands[error.operand])
        if np.array_equal(spoilt[error.operand], operands[error.operand]):
            return None
        with np.errstate(all="ignore"):
            try:
                value = np.asarray(self._operation.reference(spoilt))
            except Exception:  # a reference that refuses spoilt operands is no evidence that the error is detected
                return False
            if np.array_equal(value, right, equal_nan=True):
                return None
            got = value.astype(inputs.dtype_of(self._operation.types.result))
        compare = verdict.compare_bits if len(wanted) == 1 else verdict.compare_bounded
        return compare(got, *wanted).word == "different"
