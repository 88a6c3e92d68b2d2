"""Verification detects a too narrow accumulator of a quantized operation.

The tests include matrix products with a single row (m = 1) and a convolution of a single image."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.planted import in_wrapping_pairs, is_reported

from dispatchflow.operations import OPERATIONS


def in_f32(terms: Any) -> Any:
    """Sum `terms` over the last axis, one after another; round each partial sum to f32."""
    return np.add.accumulate(terms.astype(np.float32), axis=-1)[..., -1].astype(np.int64)


def in_24_bits(terms: Any) -> Any:
    return (terms.sum(axis=-1) + 2**23) % 2**24 - 2**23


@pytest.mark.parametrize(
    "options", [{}, {"weight_zp": 3}, {"input_zp": -100, "weight_zp": 5}, {"input_zp": 100}], ids=str
)
@pytest.mark.parametrize("sizes", [(1, 16, 2048), (2, 16, 2048), (1, 64, 4096), (16, 1, 2048)])
@pytest.mark.parametrize("summed", [in_f32, in_24_bits])
def test_a_quantized_sum_in_24_bits_is_reported(sizes: tuple[int, ...], options: Any, summed: Any) -> None:
    operation = OPERATIONS["quantized_matmul"].make(sizes, "i8", None, **options)
    a_zero, b_zero = (operation.option(word) for word in ("input_zp", "weight_zp"))
    assert is_reported(operation, lambda a, b: summed((a - a_zero)[:, None] * (b - b_zero).T))


@pytest.mark.parametrize("sizes", [(1, 1), (1, 8), (8, 8)])
@pytest.mark.parametrize("k", [16, 17, 64, 65])
def test_pairs_of_quantized_products_in_i16_are_reported(sizes: tuple[int, int], k: int) -> None:
    operation = OPERATIONS["quantized_matmul"].make((*sizes, k), "i8")
    zero = operation.option("input_zp")
    assert is_reported(operation, lambda a, b: in_wrapping_pairs((a - zero)[:, None] * b.T))
    # Products of the stored numbers, from which the zero point times the sum of a column is subtracted.
    assert is_reported(operation, lambda a, b: in_wrapping_pairs(a[:, None] * b.T) - zero * b.sum(axis=0))


def test_a_quantized_convolution_of_one_image_in_f32_is_reported() -> None:
    operation = OPERATIONS["quantized_conv2d"].make((1, 7, 7, 512, 8, 3, 3), "i8")
    zero = operation.option("input_zp")

    def convolution(x: Any, weights: Any) -> Any:
        seen = np.lib.stride_tricks.sliding_window_view(x - zero, (3, 3), axis=(1, 2)).reshape(1, 5, 5, -1)
        return in_f32(seen[..., None, :] * np.moveaxis(weights, (3, 2), (0, 1)).reshape(8, -1))

    assert is_reported(operation, convolution)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (1, 1, 4), (4, 4, 8), (1, 16, 16), (3, 5, 7), (8, 1, 20)])
@pytest.mark.parametrize("zero", [-100, -4, -3, -2, -1, 1, 2, 3, 4, 100])
@pytest.mark.parametrize("side", [0, 1])
def test_differences_from_a_zero_point_that_wrap_or_saturate_in_i8_are_reported(
    sizes: tuple[int, ...], zero: int, side: int
) -> None:
    operation = OPERATIONS["quantized_matmul"].make(sizes, "i8", None, **{("input_zp", "weight_zp")[side]: zero})
    zeros = [operation.option(word) for word in ("input_zp", "weight_zp")]

    def product(narrow: Any, *factors: Any) -> Any:
        a, b = (narrow(x - z) if i == side else x - z for i, (x, z) in enumerate(zip(factors, zeros, strict=True)))
        return a @ b

    assert is_reported(operation, lambda *factors: product(lambda x: (x + 128) % 256 - 128, *factors))
    assert is_reported(operation, lambda *factors: product(lambda x: np.clip(x, -128, 127), *factors))
    assert not is_reported(operation, lambda *factors: product(lambda x: x, *factors))
