"""Errors in a single column or row are reported although a relu clips negative sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.planted import Kernel, is_reported

from dispatchflow.operations import OPERATIONS


def unclipped(operation: Any) -> Kernel:
    """Return a kernel that applies no relu."""

    def kernel(*operands: Any) -> Any:
        total = operation._plain.reference(operands[:2]) + operation._spread(operands[2])
        return total if operation.types.result.is_float else total.astype(np.int32).astype(np.int64)

    return kernel


def in_last_column(operation: Any, wrong: Kernel) -> Kernel:
    """Return a kernel that is wrong only in the last column, as in a remainder loop."""

    def kernel(*operands: Any) -> Any:
        result = operation.reference(operands)
        result[..., -1] = wrong(*operands)[..., -1]
        return result

    return kernel


@pytest.mark.parametrize("types", ["i8", "i4", "ui8_i8"])
@pytest.mark.parametrize("m", [1, 2, 3, 7, 8, 64])
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
