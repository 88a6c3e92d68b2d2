"""Sums inside of softmax and norm, at sizes that models have: a term that is lost, doubled or weighted wrongly, a wrong
divisor, epsilon or maximum is reported, and what correct kernels give is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.weighted_sums import NORM, SIZES, SOFTMAX, Judge, weights

from dispatchflow.operations import Operation
from dispatchflow.operations.norm import EPSILON
from dispatchflow.verification import power
from dispatchflow.verification.inputs import made

# --- softmax


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
    judge = Judge(SOFTMAX.make((m, n), types))
    (x,) = judge.operands
    assert judge.missed((what, softmax(x, weight)) for what, weight in weights(n)) == []
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
        wrong.popitem()  # no row has its single largest there
    assert judge.missed(iter(wrong.items())) == []


@pytest.mark.parametrize(("types", "n", "m"), SOFTMAXES)
def test_a_right_softmax_in_its_own_types_passes(types: str, n: int, m: int) -> None:
    judge = Judge(SOFTMAX.make((m, n), types))
    dtype = np.float16 if types == "f16" else np.float32
    one_by_one = lambda a, axis, keepdims: np.cumsum(a, axis=axis, dtype=dtype)[:, -1:]  # noqa: E731
    assert judge.verdict(softmax(judge.operands[0], dtype=dtype)).passed
    assert judge.verdict(softmax(judge.operands[0], dtype=dtype, total=one_by_one)).passed
    assert judge.verdict(online(judge.operands[0].astype(np.float32))).passed


def online(x: Any, tile: int = 37, rescaled: bool = True) -> Any:
    """Tile by tile, with powers of two and a largest that grows.

    If not `rescaled`, the last tile adds to a sum that belongs to the largest before it."""
    x = x * np.float32(np.log2(np.e))
    largest, total = np.full((len(x), 1), -3e38, np.float32), np.zeros((len(x), 1), np.float32)
    for start in range(0, x.shape[1], tile):
        part = x[:, start : start + tile]
        new = np.maximum(largest, part.max(axis=1, keepdims=True))
        factor = np.exp2(largest - new) if rescaled or start + tile < x.shape[1] else np.float32(1)
        total = total * factor + np.exp2(part - new).sum(axis=1, keepdims=True)
        largest = new
    return np.exp2(x - largest) * (np.float32(1) / total)


@pytest.mark.parametrize("types", ["f32", "f16_f32_f16"])
@pytest.mark.parametrize(("n", "tile"), [(129, 64), (1000, 64), (4096, 512)])
def test_a_last_tile_that_rescales_nothing_shows_in_a_single_row(types: str, n: int, tile: int) -> None:
    judge = Judge(SOFTMAX.make((1, n), types), "single")
    x = judge.operands[0].astype(np.float32)
    assert judge.verdict(online(x, tile)).passed
    assert not judge.verdict(online(x, tile, rescaled=False)).passed


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
    """What docs/verification.md says of which positions are seen."""
    for n, m in ((4096, 1), (4096, 5), (16384, 16), (16384, 19)):
        seen = made(SOFTMAX.make((m, n), "f16_f32_f16"), "counted")[0]
        rows = [row >= row.max() for i, row in enumerate(seen) if i % 8 != 7]
        assert {int(row.sum()) for row in rows} == {1024}
        assert np.any(rows, axis=0).sum() == min(n, len(rows) * 1024)
        assert rows[0][-1]


# --- norm


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


@pytest.mark.parametrize(("types", "kind", "n"), [*NORMS, ("f32", "layer", 1), ("f32", "rms", 7), ("f32", "layer", 7)])
def test_a_right_norm_in_f32_passes(types: str, kind: str, n: int) -> None:
    judge = Judge(NORM.make((2, n), types, kind=kind))
    x, scale, *rest = (array.astype(np.float32) for array in judge.operands)
    shift, count = rest[0] if rest else np.float32(0), np.float32(n)
    sums: dict[str, Callable[[Any], Any]] = {
        "pairwise": lambda a: a.sum(axis=1, keepdims=True),
        "one by one": lambda a: np.cumsum(a, axis=1, dtype=np.float32)[:, -1:],
    }
    for what, total in sums.items():
        mean = total(x) / count if rest else np.float32(0)
        for off in (1, 1 + 4e-7):  # a quotient that is off by three places, as Vulkan allows
            d = x - mean * np.float32(off)
            two_passes = total(d * d) / count
            moments = total(x * x) * (np.float32(1) / count) - mean * mean
            # Squares are integers below 17² · n: one by one they are summed exactly up to n = 58,000.
            for variance in (two_passes, moments) if n < 58_000 or what == "pairwise" else (two_passes,):
                got = d * (np.float32(1) / np.sqrt(variance + np.float32(EPSILON))) * scale + shift
                assert judge.verdict(got).passed, what


SHIFTED = [(types, n) for types in NORM.signatures for n in (300, 4096, 16384, 65535, 65536, 262144)]


def summed_by(lanes: int) -> Callable[[Any], Any]:
    """The sum of each row in f32, one by one in each lane."""

    def total(a: Any) -> Any:
        whole = np.pad(a, [(0, 0), (0, -a.shape[1] % lanes)]).reshape(len(a), -1, lanes)
        return np.cumsum(whole, axis=1, dtype=np.float32)[:, -1].sum(axis=1, keepdims=True)

    return total


@pytest.mark.parametrize(("types", "n"), SHIFTED)
def test_a_mean_far_from_0_is_exact_in_any_order_and_moments_are_reported(types: str, n: int) -> None:
    judge = Judge(NORM.make((2 if n > 65536 else 4, n), types, kind="layer"), "shifted")
    x, scale, shift = (array.astype(np.float32) for array in judge.operands)
    count = np.float32(n)

    def passes(d: Any, variance: Any) -> bool:
        return judge.verdict(d / np.sqrt(variance + np.float32(EPSILON)) * scale + shift).passed

    for lanes in (1, 8, 64):
        total = summed_by(lanes)
        mean = total(x) / count
        exact = mean == judge.operands[0].mean(axis=1, keepdims=True)
        assert exact[np.arange(len(x)) % 3 != 2].all()  # the other rows have few terms
        d = x - mean
        assert passes(d, total(d * d) / count)
    one_by_one = summed_by(1)
    mean = one_by_one(x) / count
    assert not passes(x - mean, np.maximum(one_by_one(x * x) / count - mean * mean, 0))


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
    assert np.count_nonzero(x) == min(n, 4)
    last = np.argsort(x == 0, axis=1, kind="stable")
    for order in (np.arange(n)[None], last, last[:, ::-1]):
        for lanes in (1, 8, 64):
            total, each = summed_by(lanes), np.take_along_axis(x, order, axis=1)
            mean = total(each) / np.float32(n) * np.float32(1 + 4e-7) if shift else np.float32(0)
            variance = total((each - mean) ** 2) / np.float32(n)
            got = (x - mean) * (np.float32(1) / np.sqrt(variance + np.float32(EPSILON))) * scale
            assert judge.verdict(got + shift[0] if shift else got).passed, lanes
