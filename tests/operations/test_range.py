"""Verification reports kernels that are right only for small numbers, or only until a sum overflows."""

from __future__ import annotations

from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.planted import Kernel, in_wrapping_pairs, is_reported
from support.variants import by_name

from dispatchflow.operations import OPERATIONS
from dispatchflow.operations._range import exponents, spans
from dispatchflow.operations.norm import EPSILON
from dispatchflow.verification.inputs import dtype_of, made
from dispatchflow.verification.reference import expected


def as_f16(x: Any) -> Any:
    return x.astype(np.float16).astype(np.float64)


def wrapped(bits: int) -> Kernel:
    return lambda a, b: (a @ b + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def in_pairs(bits: int) -> Kernel:
    """Return a matmul kernel that adds products two by two, in saturating integers of `bits` bits.

    The instruction pmaddubsw adds in this way. If the kernel gets a bias, it adds the bias and applies a relu."""

    def product(a: Any, b: Any, *bias: Any) -> Any:
        pairs = a[:, ::2, None] * b[None, ::2] + a[:, 1::2, None] * b[None, 1::2]
        total = np.clip(pairs, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1).sum(axis=1)
        return np.maximum(total + bias[0], 0) if bias else total

    return product


def saturating(a: Any, b: Any, *added: Any) -> Any:
    """Compute a matmul, then add each array of `added` in saturating i32, as vpdpbusds and vqadd do."""
    total = (a @ b).astype(np.int32).astype(np.int64)
    for one in added:
        total = np.clip(total + one, -(2**31), 2**31 - 1)
    return total


def greatest(first: float) -> Kernel:
    return lambda x: np.maximum(x.max(axis=1), first)


def norm_with_squares_in_f16(x: Any, scale: Any, shift: Any = 0) -> Any:
    centered = x - x.mean(axis=1, keepdims=True) if np.ndim(shift) else x
    squares = as_f16(centered**2).mean(axis=1, keepdims=True)
    return centered / np.sqrt(squares + EPSILON) * scale + shift


def norm_with_a_clamped_variance(x: Any, scale: Any, shift: Any) -> Any:
    centered = x - x.mean(axis=1, keepdims=True)
    return centered / np.sqrt(np.minimum((centered**2).mean(axis=1, keepdims=True) + EPSILON, 2)) * scale + shift


def softmax_that_cuts(x: Any) -> Any:
    below = x - x.max(axis=1, keepdims=True)
    powers = np.where(below < -8.125, 0, np.exp(below))
    return powers / powers.sum(axis=1, keepdims=True)


def softmax_from(first: float) -> Kernel:
    def softmax(x: Any) -> Any:
        powers = np.exp(x - np.maximum(x.max(axis=1, keepdims=True), first))
        return powers / powers.sum(axis=1, keepdims=True)

    return softmax


CASES: list[tuple[str, tuple[int, ...], str, dict[str, Any], Kernel]] = [
    ("matmul", (32, 32, 64), "bf16", {}, lambda a, b: as_f16(a) @ as_f16(b)),
    ("matmul", (1, 32, 64), "bf16", {}, lambda a, b: as_f16(a) @ b),
    ("conv2d", (1, 9, 9, 16, 8, 3, 3), "bf16", {}, lambda a, b: OPERATIONS["conv2d"].make((1, 9, 9, 16, 8, 3, 3)).reference([as_f16(a), b])),
    ("matmul", (32, 32, 64), "f8E4M3FN", {}, lambda a, b: np.where(abs(a) >= 256, np.inf, a) @ b),
    ("matmul", (32, 32, 4096), "i8", {}, lambda a, b: np.cumsum(a[:, :, None].astype(np.float32) * b.astype(np.float32), axis=1)[:, -1]),
    ("matmul", (32, 32, 4096), "i4", {}, wrapped(16)),
    ("matmul", (32, 32, 64), "i8", {}, in_pairs(16)),
    ("matmul", (1, 1, 64), "i8", {}, in_pairs(16)),
    ("matmul", (1, 32, 64), "i8", {"epilogue": "bias+relu"}, in_pairs(16)),
    ("matmul", (32, 32, 64), "i4", {}, in_pairs(8)),
    ("matmul", (32, 32, 64), "i16", {}, in_pairs(32)),
    ("reduction", (16, 2048), "i8", {}, lambda x: (x.sum(axis=1) + 2**15) % 2**16 - 2**15),
    ("reduction", (16, 2048), "f32", {"kind": "max"}, greatest(-1000.0)),
    ("reduction", (16, 2048), "i32", {"kind": "max"}, greatest(-32768)),
    ("softmax", (8, 1000), "f32", {}, softmax_that_cuts),
    ("softmax", (8, 1000), "f32", {}, softmax_from(-1000.0)),
    ("softmax", (8, 1000), "f16_f32_f16", {}, softmax_from(-1000.0)),
    ("norm", (8, 1000), "f16_f32_f16", {"kind": "rms"}, norm_with_squares_in_f16),
    ("norm", (8, 1000), "f16_f32_f16", {"kind": "layer"}, norm_with_squares_in_f16),
    ("norm", (8, 1000), "f32", {"kind": "layer"}, norm_with_a_clamped_variance),
]  # fmt: skip


@pytest.mark.parametrize(("name", "sizes", "types", "options", "kernel"), CASES)
def test_kernel_that_is_right_for_small_numbers_alone_is_reported(
    name: str, sizes: tuple[int, ...], types: str, options: dict[str, Any], kernel: Kernel
) -> None:
    assert is_reported(OPERATIONS[name].make(sizes, types, None, **options), kernel)


@pytest.mark.parametrize("sizes", [(1, 1), (1, 8), (8, 8)])
@pytest.mark.parametrize("k", [2, 3, 4, 5, 6, 7, 9, 64, 65])
def test_products_that_are_added_in_pairs_in_i16_are_reported_for_short_sums(sizes: tuple[int, int], k: int) -> None:
    operation = OPERATIONS["matmul"].make((*sizes, k), "i8")
    assert is_reported(operation, lambda a, b: in_wrapping_pairs(a[:, None] * b.T))


@pytest.mark.parametrize("window_first", [False, True])
@pytest.mark.parametrize(
    ("sizes", "groups"),
    [
        ((1, 8, 8, 16, 8, 1, 1), 4),
        ((2, 8, 8, 6, 4, 3, 3), 2),
        ((1, 8, 8, 8, 8, 3, 3), 8),
        ((1, 8, 8, 5, 3, 1, 1), 1),
        ((1, 8, 8, 1, 3, 3, 3), 1),
    ],
)
def test_products_that_are_added_in_pairs_in_i16_are_reported_in_convolutions(
    sizes: tuple[int, ...], groups: int, window_first: bool
) -> None:
    def convolution(x: Any, weights: Any) -> Any:
        seen = np.lib.stride_tricks.sliding_window_view(x, sizes[-2:], axis=(1, 2))
        seen = seen.reshape(*seen.shape[:3], groups, -1, *sizes[-2:])[..., None, :, :, :]
        weights = np.moveaxis(weights, (3, 2), (0, 1)).reshape(groups, -1, *seen.shape[-3:])
        products = np.moveaxis(seen * weights, -3, -1) if window_first else seen * weights
        return in_wrapping_pairs(products.reshape(*products.shape[:5], -1)).reshape(*seen.shape[:3], -1)

    assert is_reported(OPERATIONS["conv2d"].make(sizes, "i8", None, groups=groups), convolution)


@pytest.mark.parametrize(
    "options",
    [
        {"accumulate": "yes"},
        {"epilogue": "bias"},
        {"epilogue": "residual"},
        {"epilogue": "bias+relu"},
        {"accumulate": "yes", "epilogue": "bias"},
    ],
    ids=str,
)
@pytest.mark.parametrize("types", ["i8", "i4", "ui8_i8", "i16", "i32"])
@pytest.mark.parametrize("sizes", [(64, 64, 64), (2, 2, 2), (1, 4, 64), (4, 1, 64), (1, 1, 64)])
def test_an_addition_that_saturates_is_reported(sizes: tuple[int, ...], types: str, options: dict[str, str]) -> None:
    if options.get("epilogue") == "bias+relu":
        sizes = (sizes[0], 64, sizes[2])  # with few columns no bias is near the limits of i32
    operation = OPERATIONS["matmul"].make(sizes, types, None, **options)
    after = (lambda x: np.maximum(x, 0)) if operation.clips else (lambda x: x)
    assert is_reported(operation, lambda *x: after(saturating(*x)))
    assert not is_reported(operation, lambda *x: operation.reference(x))


@pytest.mark.parametrize("types", ["f8E4M3FN", "f8E5M2"])
@pytest.mark.parametrize("name", ["matmul", "scaled_matmul"])
def test_each_number_of_eight_bits_is_among_the_inputs(types: str, name: str) -> None:
    for sizes in ((64, 64, 512), (8, 8, 4096)):
        operation = OPERATIONS[name].make(sizes, types)
        element = dtype_of(operation.signature.operands[0])
        numbers = np.arange(256, dtype=np.uint8).view(element).astype(np.float64)
        numbers = numbers[np.isfinite(numbers) & (numbers != 0)]
        for which in (0, 1):
            found = [made(operation, recipe)[which].astype(np.float64) for recipe in operation.recipes]
            assert set(numbers.tolist()) <= {x for values in found for x in np.unique(values).tolist()}


@pytest.mark.parametrize("types", ["f8E4M3FN", "f8E5M2"])
@pytest.mark.parametrize("k", [64, 4096, 65536])
def test_wide_sums_of_eight_bits_are_exact_in_any_order(types: str, k: int) -> None:
    for name in ("matmul", "scaled_matmul"):
        operation = OPERATIONS[name].make((4, 4, k), types)
        a, b, *scales = (x.astype(np.float32) for x in made(operation, "wide"))
        if scales:
            a, b = ((x * s[..., None]).reshape(4, k) for x, s in zip((a, b), scales, strict=True))
            assert np.isfinite(a).all() and np.isfinite(b).all()
            b = b.T
        products, right = a[:, :, None] * b[None], expected(operation, made(operation, "wide"))
        order = np.random.default_rng(0).permutation(k)
        for sums in (products.cumsum(axis=1), products[:, ::-1].cumsum(axis=1), products[:, order].cumsum(axis=1)):
            assert (sums[:, -1] == right).all()
        assert (products.reshape(4, -1, 2, 4).sum(axis=2).sum(axis=1) == right).all()


@pytest.mark.parametrize("types", ["f8E4M3FN", "f8E5M2", "f4E2M1FN"])
@pytest.mark.parametrize(("low", "high"), [(-4, 4), (-40, 127), (-127, 40)])
def test_a_clamp_of_the_product_of_two_scales_is_reported(types: str, low: int, high: int) -> None:
    def clamped(a: Any, b: Any, a_scale: Any, b_scale: Any) -> Any:
        scales = np.clip(a_scale[:, None] * b_scale, 2.0**low, 2.0**high)
        return np.einsum("mgi,ngi,mng->mn", a, b, scales)

    assert is_reported(OPERATIONS["scaled_matmul"].make((8, 8, 64), types), clamped)


@pytest.mark.parametrize("types", ["f8E4M3FN", "f8E5M2", "f4E2M1FN"])
@pytest.mark.parametrize("k", [64, 96, 256])
def test_clamped_and_flushed_scales_are_reported(types: str, k: int) -> None:
    scaled = partial(np.einsum, "mgi,ngi,mg,ng->mn")
    operation = OPERATIONS["scaled_matmul"].make((16, 16, k), types)
    for limit in (2.0**8, 2.0**64):
        assert is_reported(operation, lambda a, b, s, t, limit=limit: scaled(a, b, np.minimum(s, limit), t))
        assert is_reported(operation, lambda a, b, s, t, limit=limit: scaled(a, b, s, np.where(t < 1 / limit, 0, t)))


@pytest.mark.parametrize("types", ["f8E4M3FN", "f8E5M2", "f4E2M1FN"])
@pytest.mark.parametrize(("m", "k"), [(1, 64), (8, 4096), (2, 65536)])
def test_the_sum_of_a_block_may_be_scaled_by_one_factor_first(types: str, m: int, k: int) -> None:
    def one_by_one(a: Any, b: Any, a_scale: Any, b_scale: Any) -> Any:
        dots = np.einsum("mgi,ngi->gmn", a, b).astype(np.float32)
        scaled = dots * a_scale.T[:, :, None].astype(np.float32) * b_scale.T[:, None].astype(np.float32)
        return scaled.astype(np.float64).sum(axis=0)

    assert not is_reported(OPERATIONS["scaled_matmul"].make((m, 8, k), types), one_by_one)


@pytest.mark.parametrize("types", ["f8E4M3FN", "f8E5M2", "f4E2M1FN"])
def test_exact_inputs_hold_the_largest_numbers_of_a_narrow_type(types: str) -> None:
    operation = OPERATIONS["scaled_matmul"].make((32, 32, 64), types)
    element = operation.signature.operands[0]
    for values in made(operation, "exact")[:2]:
        assert float(abs(values.astype(np.float64)).max()) >= 2.0 ** exponents(element)[1]


@pytest.mark.parametrize("types", ["f32", "f16"])
def test_a_causal_mask_of_minus_30_is_reported(types: str) -> None:
    operation = OPERATIONS["attention"].make((1, 32, 64, 64, 32), types, None, causal="yes")

    def masked_by(low: float) -> Kernel:
        def attention(q: Any, k: Any, v: Any) -> Any:
            hidden = np.arange(32)[None, :] > np.arange(32)[:, None]
            scores = q @ np.swapaxes(k, 1, 2) / 8 + np.where(hidden, low, 0.0)
            powers = np.exp(scores - scores.max(axis=2, keepdims=True))
            return powers / powers.sum(axis=2, keepdims=True) @ v

        return attention

    assert is_reported(operation, masked_by(-30.0))
    assert not is_reported(operation, masked_by(-np.inf))


@pytest.mark.parametrize("name", OPERATIONS)
def test_results_of_scaled_lines_are_finite_and_normal(name: str) -> None:
    for operation in by_name(name):
        if any(map(any, spans(operation))):
            result = abs(expected(operation, made(operation, "exact")).astype(np.float64))
            least = float(ml_dtypes.finfo(dtype_of(operation.types.result)).smallest_normal)
            assert np.isfinite(result).all()
            assert (result[result > 0] >= least).all(), operation.shape_name


@pytest.mark.parametrize("types", ["f32", "f16", "f64"])
def test_a_transposition_that_clamps_flushes_or_narrows_numbers_is_reported(types: str) -> None:
    operation = OPERATIONS["transpose"].make((64, 48), types)
    digits = operation.types.result.digits
    least, most = exponents(operation.types.result)

    def narrow(x: Any) -> Any:
        significand, exponent = np.frexp(x)
        return np.ldexp(np.round(significand * 2.0 ** (digits - 1)), exponent - (digits - 1)).T

    assert not is_reported(operation, lambda x: x.T)
    for wrong in (
        lambda x: np.clip(x, -(2.0 ** (most - 2)), 2.0 ** (most - 2)).T,
        lambda x: np.where(abs(x) < 2.0 ** (least + 2), 0, x).T,
        lambda x: np.where(abs(x) > 100, 0, x).T,
        narrow,
    ):
        assert is_reported(operation, wrong)


@pytest.mark.parametrize("kind", ["exp", "sigmoid", "silu", "tanh"])
def test_a_function_that_is_half_too_small_above_the_smallest_normal_number_is_reported(kind: str) -> None:
    operation = OPERATIONS["elementwise"].make((1024, 256), "f16", kind=kind)

    def halved(x: Any) -> Any:
        size = abs(y := operation.reference([x]))
        return np.where((size > 1.1 * 2.0**-14) & (size < 2.0**-13), y / 2, y)

    assert is_reported(operation, halved)


@pytest.mark.parametrize("kind", ["tanh", "silu", "gelu"])
def test_a_function_may_flush_results_below_the_smallest_normal_number_to_0(kind: str) -> None:
    operation = OPERATIONS["elementwise"].make((1024, 256), "f16", kind=kind)

    def flushed(x: Any) -> Any:
        y = operation.reference([x])
        return np.where(abs(y) < 2.0**-14, 0, y)

    assert not is_reported(operation, flushed)
    assert is_reported(operation, lambda x: np.where(abs(y := operation.reference([x])) < 2.0**-10, 0, y))
