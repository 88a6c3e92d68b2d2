"""Verification reports clamps in products to which an operand is added, such as a bias."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.planted import is_reported

from dispatchflow.operations import OPERATIONS


@pytest.mark.parametrize("types", ["f32", "bf16", "f16_f32", "bf16_f32_bf16", "bf16_bf16", "f8E4M3FN", "f64", "f16"])
@pytest.mark.parametrize("options", [{"epilogue": "bias"}, {"epilogue": "bias+relu"}, {"accumulate": "yes"}], ids=str)
@pytest.mark.parametrize("sizes", [(8, 16, 64), (1, 16, 4096), (3, 5, 7)])
def test_clamps_of_operands_and_results_are_reported_where_an_operand_is_added(
    types: str, options: dict[str, str], sizes: tuple[int, ...]
) -> None:
    if options == {"accumulate": "yes"} and types == "bf16_f32_bf16":
        return  # the result must have the accumulator's type
    operation = OPERATIONS["matmul"].make(sizes, types, None, **options)
    for index in range(3):

        def clamped(*operands: Any, index: int = index) -> Any:
            return operation.reference([np.clip(x, -3, 3) if i == index else x for i, x in enumerate(operands)])

        assert is_reported(operation, clamped), index
    for most in (256.0,) if types == "f16" else (256.0, 10000.0, 65504.0):
        assert is_reported(operation, lambda *x, most=most: np.clip(operation.reference(x), -most, most)), most
    assert not is_reported(operation, lambda *x: operation.reference(x))
