"""Verification rejects attention kernels with a wrong sum, mask or causal boundary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
from support.weighted_sums import ATTENTION, Judge, weights

from dispatchflow.operations import Operation
from dispatchflow.verification.inputs import dtype_of


def attention(operation: Operation, a: Any, both: Any = 1.0, summed: Any = 1.0, more: int = 0, mask: Any = None) -> Any:
    m, k2 = operation.sizes[1], operation.sizes[4]
    scores = operation._scale * (a[0] @ a[1].swapaxes(1, 2)) + (a[3] if len(a) > 3 and mask is None else mask or 0)
    if operation.option("causal") == "yes":
        scores = np.where(np.tri(m, k2, k2 - m + more, dtype=bool), scores, -np.inf)
    powers = np.exp(scores - scores.max(axis=2, keepdims=True)) * both
    with np.errstate(invalid="ignore", divide="ignore"):
        return (powers @ a[2]) / (powers * summed).sum(axis=2, keepdims=True)


ATTENTIONS = [
    (types, options, k2)
    for types in ATTENTION.signatures
    for options in ({}, {"mask": "yes", "causal": "yes"})
    for k2 in (8, 4096)
] + [("f32", {}, 16384), ("f16", {"mask": "yes", "causal": "yes"}, 16384)]


def misread(operation: Operation, operands: list[Any]) -> Iterator[tuple[str, Any]]:
    """Yield (description of the error, result) for causal attentions with a wrong boundary or mask."""
    q, k, v, mask = operands
    yield "a boundary that is one late", attention(operation, operands, more=1)
    yield "a boundary that is one early", attention(operation, operands, more=-1)
    yield "no mask", attention(operation, [q, k, v])
    yield "the mask of the next key", attention(operation, [q, k, v, np.roll(mask, 1, axis=2)])
    yield "the mask of the next query", attention(operation, [q, k, v, np.roll(mask, 1, axis=1)])


@pytest.mark.parametrize(("types", "options", "k2"), ATTENTIONS, ids=str)
def test_every_key_of_an_attention_its_mask_and_its_boundary_count(types: str, options: Any, k2: int) -> None:
    m = 8 if k2 == 8 else 18
    judge = Judge(operation := ATTENTION.make((1, m, 4, 64, k2), types, **options))
    missed = judge.missed((what, attention(operation, judge.operands, both=w)) for what, w in weights(k2))
    if k2 == 8:  # the weight of a key cancels in queries that see no other key: the random inputs must show the error
        random = Judge(operation, "random")
        missed = [
            what for what, w in weights(k2)
            if what in missed and random.verdict(attention(operation, random.operands, both=w)).passed
        ]  # fmt: skip
    assert missed == []
    if types == "f32" or k2 == 8:  # see "What each operation lets pass" in docs/verification.md
        results = ((what, attention(operation, judge.operands, summed=w)) for what, w in weights(k2))
        assert judge.missed(results) == []
    with np.errstate(invalid="ignore", over="ignore"):
        if options:
            unseen = [set(one.missed(misread(operation, one.operands))) for one in (judge, Judge(operation, "peaked"))]
            assert set.intersection(*unseen) == set()
        powers = np.exp(operation._scale * (judge.operands[0] @ judge.operands[1].swapaxes(1, 2)).astype(np.float32))
        assert not judge.verdict(powers @ judge.operands[2] / powers.sum(axis=2, keepdims=True)).passed


@pytest.mark.parametrize("k2", [8, 1000, 4096, 65535, 65536])
def test_every_key_counts_in_one_result_of_f32(k2: int) -> None:
    judge = Judge(operation := ATTENTION.make((1, 1, 1, 64, k2), "f32"))
    for word in ("both", "summed"):
        results = ((what, attention(operation, judge.operands, **{word: w})) for what, w in weights(k2))
        assert judge.missed(results) == []


@pytest.mark.parametrize("types", ATTENTION.signatures)
@pytest.mark.parametrize("k2", [40, 64, 1000, 4096])
def test_the_boundary_of_each_causal_query_is_seen(types: str, k2: int) -> None:
    # An error in a single query must be reported, even if this query sees few keys.
    judge = Judge(operation := ATTENTION.make((1, 40, 8, 64, k2), types, causal="yes"))
    with np.errstate(invalid="ignore"):
        early, late = (attention(operation, judge.operands, more=more) for more in (-1, 1))
    right = operation.reference(judge.operands)
    for query in range(1, 39):
        for wrong in (early, late):
            got = right.copy()
            got[:, query] = wrong[:, query]
            assert not judge.verdict(got).passed, query


@pytest.mark.parametrize(("types", "options", "k2"), ATTENTIONS, ids=str)
def test_a_right_attention_passes(types: str, options: Any, k2: int) -> None:
    m = 8 if k2 == 8 else 18
    operation = ATTENTION.make((1, m, 4, 64, k2), types, **options)
    for recipe in operation.recipes:
        passes(Judge(operation, recipe))


@pytest.mark.parametrize("types", ATTENTION.signatures)
@pytest.mark.parametrize(
    ("m", "options", "k2"),
    [
        (1, {}, 1000),
        (1, {}, 4096),
        (1, {}, 16383),
        (1, {"causal": "yes"}, 16000),
        pytest.param(1, {"mask": "yes"}, 60001, marks=pytest.mark.slow),
        (5, {"mask": "yes"}, 999),
        (40, {"causal": "yes"}, 3000),
        (24, {"mask": "yes", "causal": "yes"}, 10000),
    ],
    ids=str,
)
def test_an_attention_that_divides_its_weights_and_adds_one_value_after_the_other_passes(
    types: str, m: int, options: Any, k2: int
) -> None:
    operation = ATTENTION.make((1, m, 4, 64, k2), types, **options)
    for recipe in operation.recipes:
        judge = Judge(operation, recipe)
        for step in (1, -1):
            assert judge.verdict(one_by_one(judge, step)).passed, recipe


@pytest.mark.parametrize("types", ATTENTION.signatures)
@pytest.mark.parametrize("options", [{}, {"mask": "yes"}, {"causal": "yes"}, {"mask": "yes", "causal": "yes"}], ids=str)
@pytest.mark.parametrize(
    ("sizes", "tile"), [((1, 1, 64, 64, 129), 64), ((2, 17, 16, 16, 17), 16), ((1, 3, 8, 4, 33), 16)]
)
def test_a_last_tile_of_one_key_that_rescales_nothing_is_reported(
    types: str, options: Any, sizes: Any, tile: int
) -> None:
    operation = ATTENTION.make(sizes, types, **options)
    judges = [Judge(operation, recipe) for recipe in operation.recipes]
    assert all(judge.verdict(online(judge, tile)).passed for judge in judges)
    assert not all(judge.verdict(online(judge, tile, skipped=[(sizes[4] - 1) // tile])).passed for judge in judges)


@pytest.mark.parametrize("types", ATTENTION.signatures)
@pytest.mark.parametrize("mask", ["no", "yes"])
@pytest.mark.parametrize(("k2", "tiles"), [(333, 3), (1000, 8), (4096, 32)])
def test_tiles_in_the_middle_that_rescale_nothing_are_reported_for_one_query(
    types: str, mask: str, k2: int, tiles: int
) -> None:
    judge = Judge(ATTENTION.make((1, 1, 8, 64, k2), types, mask=mask), "rising")
    tile = -(-k2 // tiles)
    assert judge.verdict(online(judge, tile)).passed
    for skipped in [tiles // 2], range(1, tiles, 2), range(2, tiles, 2):
        assert not judge.verdict(online(judge, tile, skipped)).passed, skipped


@pytest.mark.parametrize("types", ATTENTION.signatures)
@pytest.mark.parametrize("options", [{}, {"causal": "yes"}], ids=str)
@pytest.mark.parametrize(("m", "k2"), [(1, 3), (1, 5), (1, 333), (1, 4096), (2, 64), (3, 1000)])
def test_masks_that_the_last_query_ignores_or_misreads_are_reported(types: str, options: Any, m: int, k2: int) -> None:
    operation = ATTENTION.make((2, m, 4, 64, k2), types, mask="yes", **options)
    judges = [Judge(operation, recipe) for recipe in operation.recipes]
    wrong = {
        "below -3 ignored": lambda mask: np.where(mask < -3, 0, mask),
        "below -1000 ignored": lambda mask: np.where(mask < -1000, 0, mask),
        "clamped at -10": lambda mask: np.maximum(mask, -10),
        "times log2(e) below 0": lambda mask: np.where(mask < 0, mask * np.log2(np.e), mask),
        "of the next key": lambda mask: np.roll(mask, 1, axis=1),
    }
    if k2 < 5:
        del wrong["times log2(e) below 0"]
    for what, change in wrong.items():
        passed = []
        for judge in judges:
            q, k, v, mask = judge.operands
            changed = mask.copy()
            changed[:, -1] = change(mask[:, -1])
            passed.append(judge.verdict(attention(operation, [q, k, v, changed])).passed)
        assert not all(passed), what


def passes(judge: Judge) -> None:
    """Assert that verification accepts the results of two correct attention kernels.

    One kernel works tile by tile. The other kernel divides the softmax weights by their sum before it multiplies the
    values."""
    scores, v = scored(judge), judge.operands[2].astype(np.float32)
    own = dtype_of(judge.operation.signature.operands[0])
    assert judge.verdict(online(judge, 48)).passed
    powers = np.exp2(scores - scores.max(axis=2, keepdims=True))
    assert judge.verdict((powers / powers.sum(axis=2, keepdims=True)).astype(own).astype(np.float32) @ v).passed


def one_by_one(judge: Judge, step: int) -> Any:
    """Compute attention: divide the weights by their sum, then add the weighted values key by key.

    If `step` is 1, the first key is added first. If it is -1, the last key is added first."""
    scores, v = scored(judge), judge.operands[2].astype(np.float32)
    powers = np.exp2(scores - scores.max(axis=2, keepdims=True))
    shares = powers / np.cumsum(powers, axis=2, dtype=np.float32)[..., -1:]
    shares = shares.astype(dtype_of(judge.operation.signature.operands[0])).astype(np.float32)
    found = np.zeros((*shares.shape[:2], v.shape[2]), np.float32)
    for key in range(v.shape[1])[::step]:
        found += shares[:, :, key, None] * v[:, key, None]
    return found


def scored(judge: Judge) -> Any:
    """Return log2(e) * (attention scores + mask), or log2(e) * scores if the operation has no mask.

    For a key that is hidden from a causal query, the result is -3e38."""
    operation = judge.operation
    _, m, _, _, k2 = operation.sizes
    q, k, _, *masks = (array.astype(np.float32) for array in judge.operands)
    scores = q @ k.swapaxes(1, 2) * np.float32(operation._scale * np.log2(np.e))
    scores = scores + masks[0] * np.float32(np.log2(np.e)) if masks else scores
    if operation.option("causal") == "yes":
        scores = np.where(np.tri(m, k2, k2 - m, dtype=bool), scores, np.float32(-3e38))
    return scores


def online(judge: Judge, tile: int, skipped: Iterable[int] = ()) -> Any:
    """Compute attention tile by tile with a running maximum.

    A tile that raises the maximum must rescale the sums of the earlier tiles. To compute a wrong result, pass
    `skipped`: the numbers of tiles that do not rescale these sums."""
    (b, m, _, _, k2), scores, v = judge.operation.sizes, scored(judge), judge.operands[2].astype(np.float32)
    own = dtype_of(judge.operation.signature.operands[0])
    largest, total, found = np.full((b, m, 1), -3e38, np.float32), np.float32(0), np.float32(0)
    for start in range(0, k2, tile):
        part = scores[:, :, start : start + tile]
        new = np.maximum(largest, part.max(axis=2, keepdims=True))
        powers, old = np.exp2(part - new), np.exp2(largest - new)
        old = np.ones_like(old) if start // tile in skipped else old
        total = total * old + powers.sum(axis=2, keepdims=True)
        found = found * old + powers.astype(own).astype(np.float32) @ v[:, start : start + tile]
        largest = new
    return found / total
