"""Verification reports attention kernels that ignore some keys when they compute the largest score.

It also reports attention and softmax with wrong exponentials of very low numbers, such as the scores of masked keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.weighted_sums import ATTENTION, SOFTMAX, Judge

from dispatchflow.operations import Operation

SETTINGS = [
    (sizes, options)
    for sizes in ((1, 1, 4, 64, 70), (2, 1, 4, 64, 500), (1, 20, 4, 16, 200))
    for options in ({}, {"mask": "yes"}, {"causal": "yes"})
]


def attention(operation: Operation, operands: Any, seen: Any, low: Any = None) -> Any:
    """Compute attention, but look for the largest score of a row only at the keys `seen`.

    If `low` is given, it replaces the exponential of each finite score that is more than 10,000 below the largest
    score at these keys. The exponentials are computed in f32."""
    q, k, v, *mask = operands
    scores = operation._scale * (q @ k.swapaxes(1, 2)) + (mask[0] if mask else 0)  # type: ignore[attr-defined]
    m, k2 = scores.shape[1:]
    if operation.option("causal") == "yes":
        scores = np.where(np.tri(m, k2, k2 - m, dtype=bool), scores, -np.inf)
    x = (scores - scores[:, :, seen].max(axis=2, keepdims=True)).astype(np.float32)
    weights = np.exp(x)
    if low is not None:
        weights[(x < -1e4) & np.isfinite(x)] = low
    return weights @ v / weights.sum(axis=2, keepdims=True)


def is_found(operation: Operation, **plant: Any) -> bool:
    judges = [Judge(operation, recipe) for recipe in operation.recipes]
    with np.errstate(all="ignore"):
        return not all(j.verdict(attention(operation, j.operands, **plant)).passed for j in judges)


@pytest.mark.parametrize("types", ["f32", "f16"])
@pytest.mark.parametrize(("sizes", "options"), SETTINGS)
def test_a_maximum_without_the_last_keys_is_reported(sizes: tuple[int, ...], options: Any, types: str) -> None:
    operation, k2 = ATTENTION.make(sizes, types, **options), sizes[-1]
    assert not is_found(operation, seen=slice(None))
    assert is_found(operation, seen=slice(64))
    assert is_found(operation, seen=slice(k2 - 1))
    assert is_found(operation, seen=slice((k2 - 1) // 16 * 16))


@pytest.mark.parametrize("types", ["f32", "f16"])
@pytest.mark.parametrize("sizes", [(8, 1, 4, 64, 1024), (1, 8, 4, 64, 1024), (3, 5, 4, 16, 640)])
@pytest.mark.parametrize("lanes", [4, 8])
def test_a_maximum_that_loses_vector_lanes_is_reported(sizes: tuple[int, ...], types: str, lanes: int) -> None:
    operation, keys = ATTENTION.make(sizes, types), np.arange(sizes[-1])
    for lane in range(lanes):
        assert is_found(operation, seen=keys % lanes == lane), lane


@pytest.mark.parametrize("types", ["f32", "f16"])
@pytest.mark.parametrize("sizes", [(1, 1, 4, 64, 70), (1, 20, 4, 16, 200)])
@pytest.mark.parametrize("low", [1.0, np.nan])
def test_weights_of_masked_keys_are_zero(sizes: tuple[int, ...], types: str, low: float) -> None:
    assert is_found(ATTENTION.make(sizes, types, mask="yes"), seen=slice(None), low=low)


@pytest.mark.parametrize("types", SOFTMAX.signatures)
@pytest.mark.parametrize("sizes", [(1, 64), (16, 512), (3, 5)])
@pytest.mark.parametrize("low", [1.0, np.nan])
@pytest.mark.parametrize("limit", [-300, -60000, -1e8])
def test_exponentials_of_masked_elements_are_zero(sizes: tuple[int, ...], types: str, low: float, limit: float) -> None:
    operation = SOFTMAX.make(sizes, types)
    if limit == -1e8 and types != "f32":
        return
    found = False
    for recipe in operation.recipes:
        judge = Judge(operation, recipe)
        x = judge.operands[0] - judge.operands[0].max(axis=1, keepdims=True)
        weights = np.where(x < limit, low, np.exp(x))
        found |= not judge.verdict(weights / weights.sum(axis=1, keepdims=True)).passed
    assert found
