"""Verification detects a softmax with a wrong maximum, exponential, sum or `1 / sum`.

Correct softmaxes pass. All results are computed with numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.weighted_sums import SIZES, SOFTMAX, Judge, weights

from dispatchflow.verification.inputs import made


def softmax(x: Any, weight: Any = 1.0, least: float = -np.inf, dtype: Any = np.float64, total: Any = np.sum) -> Any:
    x = x.astype(dtype)
    powers = np.exp(x - np.maximum(x.max(axis=1, keepdims=True), dtype(least)))
    return powers / total(powers * dtype(weight) if np.ndim(weight) == 0 else powers * weight, axis=1, keepdims=True)


SOFTMAXES = [
    *[(word, n, 24) for word in ("f32", "f16_f32_f16") for n in SIZES],
    ("f32", 1000, 1), ("f32", 16384, 1), ("f32", 65536, 2), ("f16", 8, 8), ("f16", 512, 8),
]  # fmt: skip


@pytest.mark.parametrize(("types", "n", "m"), SOFTMAXES)
def test_every_term_of_a_softmax_counts(types: str, n: int, m: int) -> None:
    judge = Judge(operation := SOFTMAX.make((m, n), types))
    (x,) = judge.operands
    missed = judge.missed((what, softmax(x, weight)) for what, weight in weights(n))
    if m < 8:  # in each row of 2^k elements the counted inputs miss one element, which the recipe `single` must show
        single = Judge(operation, "single")
        at_single = {what: softmax(single.operands[0], weight) for what, weight in weights(n) if what in missed}
        assert len(missed) <= m * (n & (n - 1) == 0)
        missed = single.missed(iter(at_single.items()))
    assert missed == []
    with np.errstate(all="ignore"):
        narrow = np.exp(x.astype(np.float32))
        wrong = {
            "the maximum is not subtracted": narrow / narrow.sum(axis=1, keepdims=True),
            "a maximum that begins with 0": softmax(x, least=0.0, dtype=np.float32),
            "the maximum of all but the last": (
                (powers := np.exp((x - x[:, :-1].max(axis=1, keepdims=True)).astype(np.float32)))
                / powers.sum(axis=1, keepdims=True)
            ),
        }
    if m < 8:
        wrong.popitem()  # no row has its only maximum at the last element
    assert judge.missed(iter(wrong.items())) == []


@pytest.mark.parametrize(("types", "n", "m"), SOFTMAXES)
@pytest.mark.parametrize("recipe", ["counted", "mixed"])
def test_a_right_softmax_in_its_own_types_passes(types: str, n: int, m: int, recipe: str) -> None:
    judge = Judge(SOFTMAX.make((m, n), types), recipe)
    dtype = np.float16 if types == "f16" else np.float32
    one_by_one = lambda a, axis, keepdims: np.cumsum(a, axis=axis, dtype=dtype)[:, -1:]  # noqa: E731
    assert judge.verdict(softmax(judge.operands[0], dtype=dtype)).passed
    assert judge.verdict(softmax(judge.operands[0], dtype=dtype, total=one_by_one)).passed
    assert judge.verdict(online(judge.operands[0].astype(np.float32))).passed


Skipped = Callable[[int, Any], Any]
"""A function of (index of a tile, how much the tile raises the maximum).

It returns True if the tile does not rescale the sum of the earlier tiles, which is an error."""


def online(x: Any, tile: int = 37, skipped: Skipped = lambda index, growth: False, kept: float = 0.0) -> Any:
    """Compute an online softmax of each row of `x`.

    At tiles for which `skipped` returns True, the running sum is not rescaled."""
    x = x * np.float32(np.log2(np.e))
    largest, total = np.full((len(x), 1), -3e38, np.float32), np.zeros((len(x), 1), np.float32)
    for index, start in enumerate(range(0, x.shape[1], tile)):
        part = x[:, start : start + tile]
        new = np.maximum(largest, part.max(axis=1, keepdims=True))
        # The maximum stays if it would rise by `kept` or less, as in kernels that rescale only for a large rise.
        new = np.where(new - largest > kept * np.log2(np.e), new, largest)
        growth = (new - largest) / np.float32(np.log2(np.e))
        factor = np.where(skipped(index, growth) & (growth > 0), np.float32(1), np.exp2(largest - new))
        total = total * factor + np.exp2(part - new).sum(axis=1, keepdims=True)
        largest = new
    return np.exp2(x - largest) * (np.float32(1) / total)


ONLINE = [
    *[("f32", 1, n, tile) for n, tile in ((129, 16), (512, 64), (1000, 100), (4096, 512), (65536, 128), (65536, 8192))],
    ("f32", 2, 100, 10), ("f32", 4, 16384, 128), ("f32", 8, 65536, 2048), ("f32", 64, 512, 64),
    ("f16_f32_f16", 1, 4096, 128), ("f16_f32_f16", 8, 65536, 512), ("f16", 1, 512, 64), ("f16", 64, 512, 128),
]  # fmt: skip


@pytest.mark.parametrize(("types", "m", "n", "tile"), ONLINE)
def test_a_tile_that_does_not_rescale_the_sum_before_it_is_reported(types: str, m: int, n: int, tile: int) -> None:
    operation = SOFTMAX.make((m, n), types)
    judges = [
        Judge(operation, recipe) for recipe in operation.recipes if recipe in ("counted", "mixed", "peaked", "rising")
    ]
    tiles = -(-n // tile)

    def passes(**words: Any) -> bool:
        return all(
            judge.verdict(online(judge.operands[0].astype(np.float32), tile, **words)).passed for judge in judges
        )

    def tile_at(t: int) -> Skipped:
        return lambda index, growth: index == t

    wrong: dict[str, Skipped] = {
        **{f"tile {t} of {tiles}": tile_at(t) for t in {1, 2, tiles // 3, tiles // 2, tiles - 1}},
        "every second tile": lambda index, growth: index % 2 == 0,
        "growth below 8": lambda index, growth: growth < 8,
        "growth below 1": lambda index, growth: growth < 1,
        **({} if types == "f16" else {"growth below 0.1": lambda index, growth: growth < 0.1}),
    }
    assert passes()
    assert passes(kept=8.0)
    assert [what for what, skipped in wrong.items() if passes(skipped=skipped)] == []


@pytest.mark.parametrize("types", ["f32", "f16_f32_f16", "f16"])
@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 2), (1, 300), (1, 512), (2, 17), (9, 512), (3, 65536)])
def test_a_maximum_that_rises_judges_no_right_softmax_wrong(types: str, m: int, n: int) -> None:
    if (operation := SOFTMAX.make((m, n), types)).illegal("llvm-cpu"):
        return
    dtype = np.float16 if types == "f16" else np.float32
    one_by_one = lambda a, axis, keepdims: np.cumsum(a, axis=axis, dtype=dtype)[:, -1:]  # noqa: E731
    for judge in (Judge(operation, recipe) for recipe in operation.recipes if recipe in ("peaked", "rising")):
        for x in (judge.operands[0], judge.operands[0][:, ::-1]):
            found = softmax(x, dtype=dtype), softmax(x, dtype=dtype, total=one_by_one)
            assert all(judge.verdict(y if x is judge.operands[0] else y[:, ::-1]).passed for y in found)


@pytest.mark.parametrize("types", ["f32", "f16_f32_f16", "f16"])
@pytest.mark.parametrize(("m", "n"), [(1, 512), (1, 65536), (2, 1000), (24, 4096)])
def test_an_exponential_that_is_wrong_at_some_distance_from_the_maximum_is_reported(types: str, m: int, n: int) -> None:
    # Random inputs are at most 32 (f32) or 8 (f16) below the maximum. At 256 the exponential is 0 in f32 and f16.
    if (operation := SOFTMAX.make((m, n), types)).illegal("llvm-cpu"):
        return
    judge = Judge(operation, "rising" if m == 1 else "peaked")
    dtype, x = np.float16 if types == "f16" else np.float32, judge.operands[0]
    below = x.max(axis=1, keepdims=True) - x

    def passes(wrong: Any, value: float) -> bool:
        with np.errstate(all="ignore"):
            powers = np.where(wrong, dtype(value), np.exp(-below.astype(dtype)))
            return judge.verdict(powers / powers.sum(axis=1, keepdims=True, dtype=dtype)).passed

    assert passes(below < 0, 1.0)
    starts = range(32 if types == "f32" else 8, 252, 4)
    for value in (1.0, np.inf, np.nan):
        assert [d for d in starts if passes((d <= below) & (below < d + 4), value)] == []
    assert passes(below > (104 if types == "f32" else 18), 0.0)
    if types == "f32":  # in f16 even the smallest normal exponentials may be lost
        assert [d for d in starts if d < 80 and passes((d <= below) & (below < d + 4), 0.0)] == []


def test_short_rows_show_an_exponential_that_is_wrong_where_it_is_subnormal() -> None:
    for m, n in ((1, 2), (3, 17), (24, 8)):
        judge = Judge(SOFTMAX.make((m, n), "f32"), "rising" if m == 1 else "peaked")
        below = judge.operands[0].max(axis=1, keepdims=True) - judge.operands[0]
        for value, passed in ((0.0, True), (1.0, False), (np.nan, False)):
            powers = np.where((below > 87.4) & (below < 103.9), value, np.exp(-below))
            assert judge.verdict(powers / powers.sum(axis=1, keepdims=True)).passed == passed


@pytest.mark.parametrize("types", ["f32", "f16_f32_f16", "f16"])
@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 300), (2, 17), (7, 512), (8, 512), (33, 100), (16, 65536)])
def test_a_maximum_that_begins_with_a_finite_number_is_reported(types: str, m: int, n: int) -> None:
    # All elements of a masked row may lie below the number with which a kernel begins its maximum.
    if (operation := SOFTMAX.make((m, n), types)).illegal("llvm-cpu"):
        return
    judge = Judge(operation, "single" if m < 8 else "counted")
    x, dtype = judge.operands[0], np.float16 if types == "f16" else np.float32
    lowest = float(np.finfo(np.float32 if types == "f32" else np.float16).min)
    inits = (-1e8, -1e9, -1e30, -8e37) if types == "f32" else (-30000.0, -60000.0, -65000.0)
    with np.errstate(all="ignore"):
        assert [
            least for least in (-np.inf, lowest) if not judge.verdict(softmax(x, least=least, dtype=dtype)).passed
        ] == []
        assert [least for least in inits if judge.verdict(softmax(x, least=least, dtype=dtype)).passed] == []
        assert judge.verdict(online(x.astype(np.float32))).passed


def in_digits(x: Any, digits: int) -> Any:
    significand, exponent = np.frexp(x)
    return np.ldexp(np.round(np.ldexp(significand, digits)), exponent - digits)


@pytest.mark.parametrize("types", ["f32", "f16_f32_f16"])
@pytest.mark.parametrize(("m", "n"), [(1, 64), (1, 512), (1, 2048), (1, 4096), (2, 16384), (8, 65536)])
def test_an_inverse_of_the_sum_in_few_digits_is_reported(types: str, m: int, n: int) -> None:
    # A sum that is a power of two would hide the error, because its inverse has a single digit.
    operation = SOFTMAX.make((m, n), types)
    judges = [
        Judge(operation, recipe) for recipe in operation.recipes if recipe in ("counted", "mixed", "peaked", "rising")
    ]

    def passes(digits: int) -> bool:
        found = []
        for judge in judges:
            powers = np.exp(judge.operands[0] - judge.operands[0].max(axis=1, keepdims=True))
            found.append(powers * in_digits(1 / powers.sum(axis=1, keepdims=True), digits))
        return all(judge.verdict(y).passed for judge, y in zip(judges, found, strict=True))

    assert passes(24)
    assert [digits for digits in (8, 11, 12, 13) if passes(digits)] == []


@pytest.mark.parametrize("types", ["f32", "f16_f32_f16"])
@pytest.mark.parametrize(("n", "tile"), [(129, 64), (1000, 64), (4096, 512)])
def test_a_last_tile_that_rescales_nothing_shows_in_a_single_row(types: str, n: int, tile: int) -> None:
    judge = Judge(SOFTMAX.make((1, n), types), "single")
    x = judge.operands[0].astype(np.float32)
    assert judge.verdict(online(x, tile)).passed
    assert not judge.verdict(online(x, tile, lambda index, growth: index == (n - 1) // tile)).passed


@pytest.mark.parametrize("types", ["f32", "f16_f32_f16", "f16"])
@pytest.mark.parametrize(("m", "n"), [(1, 3), (1, 129), (1, 512), (3, 17), (7, 500)])
def test_a_maximum_of_a_part_of_the_row_is_reported_whatever_the_number_of_rows(types: str, m: int, n: int) -> None:
    operation = SOFTMAX.make((m, n), types)
    judges = [Judge(operation, recipe) for recipe in operation.recipes]
    dtype = np.float16 if types == "f16" else np.float32
    parts = {
        "the first half": np.s_[: max(n // 2, 1)],
        "the second half": np.s_[n // 2 + 1 :],
        "all but the last": np.s_[: n - 1],
        "all but the last tile": np.s_[: max(n - 1, 1) // 64 * 64 or 1],
        "all but the first two": np.s_[2:],
    }

    def found(judge: Judge, part: slice) -> Any:
        x = judge.operands[0]
        with np.errstate(all="ignore"):
            powers = np.exp((x - x[:, part].max(axis=1, keepdims=True)).astype(dtype))
            return powers / powers.sum(axis=1, keepdims=True)

    assert all(judge.verdict(found(judge, np.s_[:])).passed for judge in judges)
    for what, part in parts.items():
        assert not all(judge.verdict(found(judge, part)).passed for judge in judges), what


def test_each_row_of_narrow_results_sees_every_second_fourth_element() -> None:
    # docs/verification.md states these numbers of positions.
    for n, m in ((4096, 1), (4096, 5), (16384, 16), (16384, 19)):
        seen = made(SOFTMAX.make((m, n), "f16_f32_f16"), "counted")[0]
        rows = [row >= row.max() for i, row in enumerate(seen) if i % 8 != 7]
        assert {int(row.sum()) for row in rows} == {1025}
        assert min(n, len(rows) * 1024) <= np.any(rows, axis=0).sum() <= min(n, len(rows) * 1025)
        assert rows[0][-1]
