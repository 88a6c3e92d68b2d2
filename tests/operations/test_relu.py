"""Errors in one column or row of a product are reported, even if a relu hides negative results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.planted import Kernel, is_reported

from dispatchflow.operations import OPERATIONS


def unclipped(operation: Any) -> Kernel:
    """Return a kernel that computes the operation without its relu."""

    def kernel(*operands: Any) -> Any:
        total = operation._plain.reference(operands[:2]) + operation._spread(operands[2])
        return total if operation.types.result.is_float else total.astype(np.int32).astype(np.int64)

    return kernel


def in_last_column(operation: Any, wrong: Kernel) -> Kernel:
    """Return a kernel that computes the operation, but takes the last column from the kernel `wrong`.

    A wrong remainder loop can have this effect."""

    def kernel(*operands: Any) -> Any:
        result = operation.reference(operands)
        result[..., -1] = wrong(*operands)[..., -1]
        return result

    return kernel


@pytest.mark.parametrize("types", ["i8", "i4", "ui8_i8"])
@pytest.mark.parametrize("m", [1, 2, 7, 8, 15, 16, 64])
def test_an_error_in_the_last_column_of_an_integer_product_is_reported(types: str, m: int) -> None:
    for n in range(16, 32, 2):
        operation = OPERATIONS["matmul"].make((m, n, 64), types, None, epilogue="bias+relu")
        without = unclipped(operation)
        assert is_reported(operation, in_last_column(operation, without)), n
        assert is_reported(operation, in_last_column(operation, lambda *x, without=without: abs(without(*x)))), n

        def reversed_end(a: Any, *others: Any, operation: Any = operation) -> Any:
            return operation.reference([np.concatenate([a[:, :32], a[:, :31:-1]], axis=1), *others])

        assert is_reported(operation, in_last_column(operation, reversed_end)), n
        assert not is_reported(operation, lambda *x, operation=operation: operation.reference(x)), n


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("matmul", (256, 1, 64)),
        ("matmul", (8, 1, 256)),
        ("batch_matmul", (8, 16, 1, 64)),
        ("conv2d", (1, 14, 14, 32, 1, 3, 3)),
        ("conv2d", (1, 7, 7, 8, 17, 7, 7)),
    ],
)
def test_an_integer_product_without_its_relu_is_reported(name: str, sizes: tuple[int, ...]) -> None:
    operation = OPERATIONS[name].make(sizes, "i8", None, epilogue="bias+relu")
    without = unclipped(operation)
    assert is_reported(operation, without)
    assert is_reported(operation, lambda *x: abs(without(*x)))


@pytest.mark.parametrize(
    ("name", "sizes", "types"),
    [
        ("matmul", (16, 16, 64), "i8"),
        ("matmul", (16, 16, 64), "ui8_i8"),
        ("matmul", (16, 16, 64), "i4"),
        ("matmul", (1, 16, 64), "i8"),
        ("matmul", (16, 16, 16), "i8"),
        ("matmul", (64, 64, 4096), "i8"),
        ("batch_matmul", (2, 8, 16, 64), "i8"),
        ("conv2d", (1, 6, 6, 4, 8, 3, 3), "i8"),
        ("conv2d", (1, 10, 10, 64, 16, 3, 3), "i8"),
    ],
)
def test_large_integers_that_are_clamped_or_rounded_after_a_relu_are_reported(
    name: str, sizes: tuple[int, ...], types: str
) -> None:
    operation = OPERATIONS[name].make(sizes, types, None, epilogue="bias+relu")
    for limit in (2**22, 2**24, 2**30):
        assert is_reported(operation, lambda *x, limit=limit: np.minimum(operation.reference(x), limit)), limit
    assert is_reported(operation, lambda *x: operation.reference(x).astype(np.float32).astype(np.int64))
    assert not is_reported(operation, lambda *x: operation.reference(x))


def rounded(values: Any, digits: int) -> Any:
    significand, exponent = np.frexp(values)
    return np.ldexp(np.round(significand * 2.0**digits), exponent - digits)


@pytest.mark.parametrize("types", ["f32", "f16", "f16_f32_f16"])
@pytest.mark.parametrize("m", [1, 8])
def test_a_relu_lost_in_the_last_column_or_row_of_a_product_is_reported(types: str, m: int) -> None:
    for n in range(24, 40):
        operation = OPERATIONS["matmul"].make((m, n, 64), types, None, epilogue="bias+relu")
        without = unclipped(operation)
        assert is_reported(operation, in_last_column(operation, without)), n
        assert is_reported(operation, in_last_column(operation, lambda *x, without=without: abs(without(*x)))), n
        column = OPERATIONS["matmul"].make((n, 1, 64), types, None, epilogue="bias+relu")

        def kernel(*x: Any, column: Any = column) -> Any:
            return np.concatenate([column.reference(x)[:-1], unclipped(column)(*x)[-1:]])

        assert is_reported(column, kernel), n


@pytest.mark.parametrize("digits", [8, 11, 16])
def test_lost_digits_in_the_last_column_of_a_product_with_one_row_are_reported(digits: int) -> None:
    for sizes in [(1, 1, 1024), *((1, n, 64) for n in range(24, 40))]:
        operation = OPERATIONS["matmul"].make(sizes, "f32", None, epilogue="bias+relu")

        def narrow(a: Any, b: Any, bias: Any, operation: Any = operation) -> Any:
            return operation.reference([rounded(a, digits), rounded(b, digits), bias])

        assert is_reported(operation, in_last_column(operation, narrow)), sizes


@pytest.mark.parametrize("types", ["f32", "f16", "bf16"])
def test_a_product_with_one_row_and_a_relu_may_be_summed_in_any_order(types: str) -> None:
    operation = OPERATIONS["matmul"].make((1, 16, 512), types, None, epilogue="bias+relu")
    dtype = np.float16 if types == "f16" else np.float32

    def summed(order: slice, bias_first: bool) -> Kernel:
        def kernel(a: Any, b: Any, bias: Any) -> Any:
            terms = (a.T * b).astype(dtype)[order]
            start = [bias[None].astype(dtype), terms] if bias_first else [terms, bias[None].astype(dtype)]
            return np.maximum(np.add.accumulate(np.concatenate(start), dtype=dtype)[-1:], 0)

        return kernel

    for order in (slice(None), slice(None, None, -1)):
        for bias_first in (False, True):
            assert not is_reported(operation, summed(order, bias_first))
