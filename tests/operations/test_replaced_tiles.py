"""Verification reports a norm, softmax or attention that reads one tile twice and skips the next."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.weighted_sums import ATTENTION, NORM, SOFTMAX, Judge

from dispatchflow.operations.norm import EPSILON

PLACES = 16


def repeated(terms: Any, begin: int, size: int) -> Any:
    """Return a copy of `terms` in which `size` columns repeat the `size` columns before them.

    The replaced columns start at index `begin`. If `begin` and `size` are 2, a row [1, 2, 3, 4, 5] becomes
    [1, 2, 1, 2, 5]."""
    changed = terms.copy()
    changed[:, begin : begin + size] = terms[:, begin - size : begin]
    return changed


def passed(judge: Judge, size: int) -> int:
    """Return how many wrong results pass verification.

    Each wrong result counts `size` terms of a sum twice and leaves out the next `size` terms."""
    x, *vectors = judge.operands
    count, missed = x.shape[1], 0
    for i in range(PLACES):
        # The tiles are spread over the row.
        begin = (1 + i * (count // size - 1) // PLACES) * size
        if judge.operation.name == "softmax":
            powers = np.exp(x - x.max(axis=1, keepdims=True))
            got = powers / repeated(powers, begin, size).sum(axis=1, keepdims=True)
        else:
            d = x - x.mean(axis=1, keepdims=True) if len(vectors) == 2 else x
            variance = (repeated(d, begin, size) ** 2).mean(axis=1, keepdims=True)
            got = d / np.sqrt(variance + EPSILON) * vectors[0] + (vectors[1] if len(vectors) == 2 else 0)
        missed += judge.verdict(got).passed
    return missed


NORMS = [(NORM, types, {"kind": kind}) for types in NORM.signatures for kind in ("layer", "rms")]


@pytest.mark.parametrize(("cls", "types", "options"), [*NORMS, (SOFTMAX, "f32", {})])
@pytest.mark.parametrize(("rows", "columns"), [(8, 4096), (8, 65536), (1, 65536), (2, 1000)])
def test_a_tile_that_repeats_the_one_before_it_is_reported(cls, types, options, rows, columns) -> None:
    # In one or two rows, a tile and the one before it may have equal sums by chance.
    judge = Judge(cls.make((rows, columns), types, **options), "mixed")
    for size in (16, 128, columns // 64, columns // 8):
        assert passed(judge, size) <= (PLACES // 4 if rows < 8 else 0), size


@pytest.mark.parametrize("columns", [4096, 65536])
def test_a_tile_of_a_softmax_in_f16_is_reported_from_a_few_hundred_elements_on(columns: int) -> None:
    # 1 / count has 11 digits, so that count is at most a few hundred and a small tile may have none of the elements.
    judge = Judge(SOFTMAX.make((8, columns), "f16_f32_f16"), "mixed")
    assert [passed(judge, size) for size in (256, 1024)] == [0, 0]


@pytest.mark.parametrize(
    ("types", "batches", "keys", "size"), [("f16", 1, 2048, 64), ("f32", 2, 2048, 64), ("f16", 1, 8192, 64)]
)
def test_a_tile_of_keys_that_repeats_the_one_before_it_is_reported(types, batches, keys, size) -> None:
    operation = ATTENTION.make((batches, 1, 64, 64, keys), types)
    judges = [Judge(operation, recipe) for recipe in operation.recipes]
    for begin in range(size, keys, size * (keys // 2048)):
        operands = (judge.operands for judge in judges)
        wrong = [operation.reference([q, repeated(k, begin, size), v]) for q, k, v in operands]
        assert not all(judge.verdict(got).passed for judge, got in zip(judges, wrong, strict=True)), begin
