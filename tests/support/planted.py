"""Check whether verification notices that a kernel is wrong.

A kernel is a Python function that computes the operation on numpy arrays. It gets the inputs of each of the operation's
recipes (ways to make inputs)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dispatchflow.operations import Operation
from dispatchflow.verification.inputs import dtype_of, made
from dispatchflow.verification.reference import bounds, expected, widened
from dispatchflow.verification.verdict import compare_bits, compare_bounded

Kernel = Callable[..., Any]


def is_reported(operation: Operation, kernel: Kernel) -> bool:
    """Return whether verification finds the kernel wrong with the inputs of at least one recipe.

    Also assert that verification accepts the expected result with the inputs of every recipe."""
    found = False
    for recipe in operation.recipes:
        operands, dtype = made(operation, recipe), dtype_of(operation.types.result)
        with np.errstate(all="ignore"):
            right, got = expected(operation, operands), np.asarray(kernel(*widened(operands))).astype(dtype)
        if operation.compares_bits(recipe):
            assert compare_bits(right, right).word == "equal"
            found |= compare_bits(got, right).word == "different"
        else:
            wanted = bounds(operation, operands, recipe)
            assert compare_bounded(right, *wanted).word == "within bound"
            found |= compare_bounded(got, *wanted).word == "different"
    return found


def in_wrapping_pairs(products: Any) -> Any:
    """Sum over the last axis: add neighbors in pairs in i16, and then add up these pair sums.

    A pair sum outside the range of i16 wraps."""
    pairs = np.add.reduceat(products, np.arange(0, products.shape[-1], 2), axis=-1)
    return pairs.astype(np.int16).astype(np.int64).sum(axis=-1)
