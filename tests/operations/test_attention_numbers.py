"""Verification reports attention kernels that round operands, or that are wrong only for some values.

In one of these kernels, the exponential is wrong for arguments from -120 to -60. In another, products above 65504 are
infinite."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.weighted_sums import ATTENTION, Judge

from dispatchflow.operations import Operation
from dispatchflow.verification.power import halved


def judges(operation: Operation) -> list[Judge]:
    return [Judge(operation, recipe) for recipe in operation.recipes]


def with_fewer_digits(operation: Operation, operands: list[Any]) -> Iterator[tuple[str, list[Any]]]:
    """Yield (description, copy of `operands`) with some elements rounded to half of their digits.

    For example, an f32 keeps 12 of 24 binary digits."""
    _, _, _, k1, k2 = operation.sizes
    element = operation.signature.operands[0]
    parts = [(0, 2, k1), (1, 2, k1), (1, 1, k2), (2, 1, k2)]
    for index, axis, size in parts:
        cuts = [slice(16, None), slice(size - 16), slice(size // 2), slice(size // 2, None)]
        for cut in [*cuts, slice(0, None, 2), slice(1, None, 2)]:
            changed = [operand.copy() for operand in operands]
            part = changed[index].swapaxes(0, axis)[cut]
            part[:] = halved(part, element)
            yield f"operand {index}, axis {axis}, {cut}", changed
    changed = [halved(operand, element) for operand in operands[:2]]
    yield "queries and keys", [*changed, *operands[2:]]


@pytest.mark.parametrize("types", ATTENTION.signatures)
@pytest.mark.parametrize(
    ("sizes", "options"),
    [((1, 1, 4, 64, 1024), {}), ((2, 16, 4, 32, 300), {"causal": "yes"}), ((1, 18, 4, 64, 256), {"mask": "yes"})],
    ids=str,
)
def test_half_of_the_digits_at_a_part_of_the_places_or_keys_are_reported(types: str, sizes: Any, options: Any) -> None:
    operation = ATTENTION.make(sizes, types, **options)
    missed: set[str] | None = None
    for judge in judges(operation):
        assert judge.verdict(operation.reference(judge.operands)).passed
        results = (
            (what, operation.reference(changed)) for what, changed in with_fewer_digits(operation, judge.operands)
        )
        unseen = set(judge.missed(results))
        missed = unseen if missed is None else missed & unseen
    assert missed == set()


@pytest.mark.parametrize("types", ATTENTION.signatures)
def test_the_digits_of_each_place_of_queries_and_keys_count(types: str) -> None:
    # Two batches and 64 queries are enough to show an error at a single place.
    operation = ATTENTION.make((2, 64, 2, 32, 64), types)
    judge, element = Judge(operation, "peaked"), operation.signature.operands[0]
    for index in (0, 1):
        for place in range(32):
            changed = [operand.copy() for operand in judge.operands]
            changed[index][:, :, place] = halved(changed[index][:, :, place], element)
            assert not judge.verdict(operation.reference(changed)).passed, (index, place)


def attention(
    operation: Operation, operands: list[Any], exp: Any = np.exp, first: float = -np.inf, most: float = np.inf
) -> Any:
    """Compute attention, right or with a planted error.

    `exp` replaces the exponential. `first` is the initial value of the running maximum of a row's scores. A
    product of a query and a key becomes infinite if its magnitude is above `most`."""
    _, m, _, _, k2 = operation.sizes
    products = operands[0] @ operands[1].swapaxes(1, 2)
    scores = operation._scale * np.where(abs(products) > most, np.copysign(np.inf, products), products)
    scores = scores + operands[3] if len(operands) > 3 else scores
    if operation.option("causal") == "yes":
        scores = np.where(np.tri(m, k2, k2 - m, dtype=bool), scores, -np.inf)
    powers = exp(scores - np.maximum(scores.max(axis=2, keepdims=True), first))
    return (powers @ operands[2]) / powers.sum(axis=2, keepdims=True)


@pytest.mark.parametrize("types", ATTENTION.signatures)
@pytest.mark.parametrize(
    ("sizes", "options"),
    [((1, 1, 4, 64, 1024), {}), ((1, 1, 4, 64, 128), {"mask": "yes"}), ((2, 16, 4, 64, 300), {"causal": "yes"})],
    ids=str,
)
def test_exponentials_that_do_not_vanish_in_a_range_are_reported(types: str, sizes: Any, options: Any) -> None:
    operation = ATTENTION.make(sizes, types, **options)
    all_of_them = judges(operation)
    ranges = [(-250, -30, 1.0), (-120, -30, 1.0), (-120, -60, 0.1), (-127, -88, np.inf), (-104, -87, np.nan)]
    for low, high, value in [*ranges, (-64, -32, 1.0)]:

        def wrong(x: Any, low: float = low, high: float = high, value: float = value) -> Any:
            return np.where((x > low) & (x < high), value, np.exp(x))

        with np.errstate(invalid="ignore"):
            assert any(not one.verdict(attention(operation, one.operands, wrong)).passed for one in all_of_them), low
    assert all(one.verdict(attention(operation, one.operands)).passed for one in all_of_them)


@pytest.mark.parametrize("types", ATTENTION.signatures)
@pytest.mark.parametrize(
    ("sizes", "options"),
    [((1, 1, 4, 64, 100), {}), ((2, 9, 4, 128, 64), {"mask": "yes", "causal": "yes"}), ((1, 3, 2, 8, 5), {})],
    ids=str,
)
def test_a_maximum_that_begins_too_high_and_products_that_overflow_in_f16_are_reported(
    types: str, sizes: Any, options: Any
) -> None:
    operation = ATTENTION.make(sizes, types, **options)
    judge = Judge(operation)
    assert judge.verdict(attention(operation, judge.operands)).passed
    with np.errstate(invalid="ignore", divide="ignore"):
        for first in (0.0, -100.0, -200.0, -1000.0, -1e4, -6e4):
            assert not judge.verdict(attention(operation, judge.operands, first=first)).passed, first
        assert not judge.verdict(attention(operation, judge.operands, most=65504)).passed


@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ((2, 24, 48, 64, 300), {}),
        ((1, 2, 8, 64, 100), {"mask": "yes"}),
        ((1, 16, 8, 128, 4096), {"causal": "yes"}),
        ((8, 1, 16, 64, 1024), {}),
        ((1, 2, 16, 1, 5), {}),
    ],
    ids=str,
)
def test_results_that_are_truncated_to_f16_are_reported(sizes: Any, options: Any) -> None:
    operation = ATTENTION.make(sizes, "f16", **options)
    passed = []
    for judge in judges(operation):
        right = operation.reference(judge.operands)
        fraction, exponent = np.frexp(right)
        assert judge.verdict(right).passed
        passed.append(judge.verdict(np.ldexp(np.trunc(fraction * 2.0**11), exponent - 11)).passed)
    assert not all(passed)
