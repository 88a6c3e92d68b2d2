"""Verification detects wrong sums, divisors and epsilons of layer norm and RMS norm, at real sizes.

Correct kernels pass."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pytest
from support.weighted_sums import NORM, SIZES, Judge, weights

from dispatchflow.operations import Operation
from dispatchflow.operations.norm import EPSILON
from dispatchflow.verification import power


def norm(
    operation: Operation, a: Any, square: Any = 1.0, mean: Any = 1.0, less: int = 0, epsilon: float = EPSILON
) -> Any:
    layer, n = operation.option("kind") == "layer", operation.sizes[1]
    d = a[0] - (a[0] * mean).sum(axis=1, keepdims=True) / n if layer else a[0]
    root = np.sqrt((d * d * square).sum(axis=1, keepdims=True) / (n - less) + epsilon)
    return d / root * a[1] + (a[2] if layer else 0)


NORMS = [(types, kind, n) for types in NORM.signatures for kind in ("layer", "rms") for n in (*SIZES, 1001, 65536)]


@pytest.mark.parametrize(("types", "kind", "n"), NORMS)
def test_every_term_of_a_norm_its_divisor_and_its_epsilon_count(types: str, kind: str, n: int) -> None:
    judge = Judge(operation := NORM.make((1 if n > 16384 else 2, n), types, kind=kind))
    assert judge.missed((what, norm(operation, judge.operands, square=w)) for what, w in weights(n)) == []
    if kind == "layer":
        assert judge.missed((what, norm(operation, judge.operands, mean=w)) for what, w in weights(n)) == []
    wrong: dict[str, dict[str, Any]] = {
        "n - 1 for n": {"less": 1},
        "n + 1 for n": {"less": -1},
        "no epsilon": {"epsilon": 0.0},
        "epsilon twice": {"epsilon": 2 * EPSILON},
        "1e-5 for epsilon": {"epsilon": 1e-5},
        "1e-6 for epsilon": {"epsilon": 1e-6},
        **({"no mean": {"mean": 0.0}} if kind == "layer" else {}),
    }
    assert judge.missed((what, norm(operation, judge.operands, **words)) for what, words in wrong.items()) == []


SHORT = [("f32", "layer", 1), ("f32", "rms", 7), ("f32", "layer", 7)]
RIGHT = [*[("counted", *each) for each in (*NORMS, *SHORT)], *[("mixed", *each) for each in NORMS]]


@pytest.mark.parametrize(("recipe", "types", "kind", "n"), RIGHT)
def test_a_right_norm_in_f32_passes(recipe: str, types: str, kind: str, n: int) -> None:
    judge = Judge(NORM.make((2, n), types, kind=kind), recipe)
    x, scale, *rest = (array.astype(np.float32) for array in judge.operands)
    shift, count = rest[0] if rest else np.float32(0), np.float32(n)
    sums: dict[str, Callable[[Any], Any]] = {
        "pairwise": lambda a: a.sum(axis=1, keepdims=True),
        "one by one": lambda a: np.cumsum(a, axis=1, dtype=np.float32)[:, -1:],
    }
    for what, total in sums.items():
        mean = total(x) / count if rest else np.float32(0)
        for off in (1, 1 + 4e-7):  # Vulkan allows quotients that are off by about three units in the last place
            d = x - mean * np.float32(off)
            two_passes = total(d * d) / count
            moments = total(x * x) * (np.float32(1) / count) - mean * mean
            # The squares are integers, and their sum is below 17² · n: f32 sums are exact up to n = 58,000.
            for variance in (two_passes, moments) if n < 58_000 or what == "pairwise" else (two_passes,):
                got = d * (np.float32(1) / np.sqrt(variance + np.float32(EPSILON))) * scale + shift
                assert judge.verdict(got).passed, what


SHIFTED = [
    (types, n)
    for types in NORM.signatures
    for n in (32, 33, 64, 300, 768, 1024, 4096, 5120, 16384, 65535, 65536, 262144)
]


def summed_by(lanes: int) -> Callable[[Any], Any]:
    """Return a function that sums each row in f32, in `lanes` partial sums.

    A lane adds its elements one after another. The sums of the lanes are added at the end."""

    def total(a: Any) -> Any:
        whole = np.pad(a, [(0, 0), (0, -a.shape[1] % lanes)]).reshape(len(a), -1, lanes)
        return np.cumsum(whole, axis=1, dtype=np.float32)[:, -1].sum(axis=1, keepdims=True)

    return total


@pytest.mark.parametrize(("types", "n"), SHIFTED)
def test_a_mean_far_from_0_passes_and_the_square_of_it_must_not_be_subtracted(types: str, n: int) -> None:
    judge = Judge(NORM.make((2 if n > 65536 else 4, n), types, kind="layer"), "shifted")
    x, scale, shift = (array.astype(np.float32) for array in judge.operands)
    count = np.float32(n)

    def passes(d: Any, variance: Any) -> bool:
        with np.errstate(invalid="ignore"):
            return judge.verdict(d / np.sqrt(variance + np.float32(EPSILON)) * scale + shift).passed

    sums = {"pairwise": lambda a: a.sum(axis=1, keepdims=True), **{f"{i} lanes": summed_by(i) for i in (1, 4, 64, 128)}}
    for what, total in sums.items():
        mean = total(x) / count
        for off in (1, 1 - 4e-7, 1 + 4e-7):  # quotients as Vulkan allows them
            d = x - mean * np.float32(off)
            assert passes(d, total(d * d) / count), what
        squares = total(x * x) / count
        for variance in (squares - mean * mean, np.float64(squares) - np.float64(mean) ** 2):  # without and with an fma
            assert not passes(x - mean, np.maximum(variance, 0)), what
            assert not passes(x - mean, variance.astype(np.float32)), what


def rounded(a: Any, digits: int) -> Any:
    significand, exponent = np.frexp(a)
    return np.ldexp(np.round(significand * 2.0**digits), exponent - digits)


LONG = [
    (types, kind, *sizes)
    for types in NORM.signatures
    for kind in ("layer", "rms")
    for sizes in ((1, 4096), (2, 4096), (1, 10_000), (4, 50_000), (1, 65_536), (2, 65_536))
]


@pytest.mark.parametrize(("types", "kind", "m", "n"), LONG)
def test_a_mean_and_a_variance_that_lose_digits_show_in_few_long_rows(types: str, kind: str, m: int, n: int) -> None:
    operation = NORM.make((m, n), types, kind=kind)
    judges = [Judge(operation, recipe) for recipe in operation.recipes]

    def passes(mean_digits: int, variance_digits: int) -> bool:
        def found(x: Any, scale: Any, *shift: Any) -> Any:
            d = x - rounded(x.mean(axis=1, keepdims=True), mean_digits) if shift else x
            variance = rounded((d * d).mean(axis=1, keepdims=True), variance_digits)
            return d / np.sqrt(variance + EPSILON) * scale + sum(shift)

        return all(judge.verdict(found(*judge.operands)).passed for judge in judges)

    assert passes(24, 24)
    assert [digits for digits in (8, 11, 12) if passes(24, digits)] == []
    assert kind == "rms" or [digits for digits in (8, 11, 12) if passes(digits, 24)] == []
    assert power.unseen(operation) == []


FEW = [(types, kind, n) for types in NORM.signatures for kind in ("layer", "rms") for n in (2, 3, 7, 300, 4096, 262144)]


@pytest.mark.parametrize(("types", "kind", "n"), FEW)
def test_few_terms_in_a_long_row_are_right_in_any_order(types: str, kind: str, n: int) -> None:
    judge = Judge(NORM.make((1, n), types, kind=kind), "few")
    x, scale, *shift = (array.astype(np.float32) for array in judge.operands)
    assert min(n, 4) <= np.count_nonzero(x) <= 8
    last = np.argsort(x == 0, axis=1, kind="stable")
    for order in (np.arange(n)[None], last, last[:, ::-1]):
        for lanes in (1, 8, 64):
            total, each = summed_by(lanes), np.take_along_axis(x, order, axis=1)
            mean = total(each) / np.float32(n) * np.float32(1 + 4e-7) if shift else np.float32(0)
            variance = total((each - mean) ** 2) / np.float32(n)
            got = (x - mean) * (np.float32(1) / np.sqrt(variance + np.float32(EPSILON))) * scale
            assert judge.verdict(got + shift[0] if shift else got).passed, lanes


RANGES = [(types, kind, n) for types in NORM.signatures for kind in ("layer", "rms") for n in (33, 1000, 4096)]


@pytest.mark.parametrize(("types", "kind", "n"), RANGES)
def test_a_variance_that_is_wrong_in_a_range_is_reported(types: str, kind: str, n: int) -> None:
    operation = NORM.make((16, n), types, kind=kind)
    judges = [Judge(operation, recipe) for recipe in operation.recipes]

    def passes(change: Callable[[Any], Any]) -> bool:
        def found(x: Any, scale: Any, *shift: Any) -> Any:
            d = x - x.mean(axis=1, keepdims=True) if shift else x
            with np.errstate(invalid="ignore"):
                return d / np.sqrt(change((d * d).mean(axis=1, keepdims=True)) + EPSILON) * scale + sum(shift)

        return all(judge.verdict(found(*judge.operands)).passed for judge in judges)

    assert passes(lambda v: v)
    for low, high in ((0, 2.0**-18), (0.5, 2), (128, 512)):
        for wrong in (0, 2 * low + EPSILON, np.nan):
            assert not passes(lambda v, low=low, high=high, wrong=wrong: np.where((v >= low) & (v < high), wrong, v))  # type: ignore[misc]


@pytest.mark.parametrize("types", NORM.signatures)
@pytest.mark.parametrize("n", [1, 8, 33, 4096])
def test_the_variance_of_equal_elements_may_not_be_negative(types: str, n: int) -> None:
    judge = Judge(NORM.make((4, n), types, kind="layer"), "shifted")
    x, scale, shift = judge.operands
    d = x - x.mean(axis=1, keepdims=True)
    variance = (d * d).mean(axis=1, keepdims=True)
    assert (variance == 0).any()
    assert judge.verdict(d / np.sqrt(variance + EPSILON) * scale + shift).passed
    with np.errstate(invalid="ignore"):
        assert not judge.verdict(d / np.sqrt(np.where(variance == 0, -1, variance) + EPSILON) * scale + shift).passed


Moments = tuple[Any, Any, int]
"""(mean of some numbers, sum of the squared distances from the mean, count of the numbers)."""


def merged(a: Moments, b: Moments) -> Moments:
    """Combine the moments of two parts of a row, in f32, by the formula of Chan, Golub and LeVeque.

    Moments are a mean, the sum of the squared distances from this mean, and a count."""
    (mean, squares, count), (other, more, added) = a, b
    both, d = count + added, other - mean
    return mean + d * np.float32(added / both), squares + more + d * d * np.float32(count * added / both), both


def updated(x: Any, lanes: int) -> list[Moments]:
    """Divide each row into `lanes` interleaved parts; return the `Moments` of each part.

    The moments are computed by Welford's method in f32."""
    mean, squares = np.zeros((2, len(x), lanes), np.float32)
    for i, each in enumerate(x.reshape(len(x), -1, lanes).swapaxes(0, 1)):
        d = each - mean
        mean = mean + d / np.float32(i + 1)
        squares = squares + d * (each - mean)
    return [(mean[:, i : i + 1], squares[:, i : i + 1], x.shape[1] // lanes) for i in range(lanes)]


def tiled(x: Any, width: int) -> list[Moments]:
    tiles = x.reshape(len(x), -1, width)
    mean = tiles.mean(axis=2, dtype=np.float32)
    squares = ((tiles - mean[..., None]) ** 2).sum(axis=2, dtype=np.float32)
    return [(mean[:, i : i + 1], squares[:, i : i + 1], width) for i in range(tiles.shape[1])]


@pytest.mark.parametrize("types", NORM.signatures)
@pytest.mark.parametrize(("m", "n", "lanes"), [(4, 768, 1), (6, 4096, 1), (4, 32768, 8), (2, 65536, 8), (3, 65536, 32)])
def test_a_running_mean_and_merged_moments_pass(types: str, m: int, n: int, lanes: int) -> None:
    operation = NORM.make((m, n), types, kind="layer")
    for recipe in operation.recipes:
        judge = Judge(operation, recipe)
        x, scale, shift = (array.astype(np.float32) for array in judge.operands)
        for parts in (updated(x, lanes), tiled(x, 8), tiled(x, 64)):
            mean, squares, count = reduce(merged, parts)
            got = (x - mean) / np.sqrt(squares / np.float32(count) + np.float32(EPSILON)) * scale + shift
            assert judge.verdict(got).passed, (recipe, len(parts))


def test_one_running_mean_over_a_long_row_passes() -> None:
    judge = Judge(NORM.make((4, 65536), "f32", kind="layer"), "mixed")
    x, scale, shift = (array.astype(np.float32) for array in judge.operands)
    ((mean, squares, count),) = updated(x, 1)
    verdict = judge.verdict((x - mean) / np.sqrt(squares / np.float32(count) + np.float32(EPSILON)) * scale + shift)
    assert verdict.passed and verdict.score < 0.5


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("types", NORM.signatures)
@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_the_bound_of_a_row_with_one_element_is_a_number(types: str, kind: str) -> None:
    operation = NORM.make((4, 1), types, kind=kind)
    for recipe in operation.recipes:
        assert np.isfinite(Judge(operation, recipe).bounds).all()


@pytest.mark.parametrize("types", NORM.signatures)
@pytest.mark.parametrize("kind", ["layer", "rms"])
@pytest.mark.parametrize("m", [1, 4])
def test_a_row_with_one_element_is_verified(types: str, kind: str, m: int) -> None:
    operation = NORM.make((m, 1), types, kind=kind)
    assert power.unseen(operation) == []
    for recipe in operation.recipes:
        judge = Judge(operation, recipe)
        x, scale, *shift = (array.astype(np.float32) for array in judge.operands)
        d = x - x if shift else x
        assert judge.verdict(d * (1 / np.sqrt(d * d + np.float32(EPSILON))) * scale + sum(shift)).passed
