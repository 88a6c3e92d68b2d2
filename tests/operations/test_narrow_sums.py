"""Verification reports kernels that sum integers in too few bits, even if only large sums are wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dispatchflow.operations import OPERATIONS, Operation
from dispatchflow.verification.inputs import dtype_of, made
from dispatchflow.verification.reference import expected


def in_f32(a: Any, b: Any) -> Any:
    """Return the product of two matrices of integers, with sums that are computed in f32."""
    terms = (a[:, :, None] * b[None]).astype(np.float32)
    return np.cumsum(terms, axis=1, dtype=np.float32)[:, -1].astype(np.int64)


def reported(operation: Operation, recipes: tuple[str, ...], narrow: Any) -> bool:
    operands = {recipe: made(operation, recipe) for recipe in recipes}
    return any(
        (narrow(*(values.astype(np.int64) for values in given)) != expected(operation, given)).any()
        for given in operands.values()
    )


@pytest.mark.parametrize(("types", "sizes"), [("i8", (16, 16, 1152)), ("i8", (1, 16, 1060)), ("ui8_i8", (16, 16, 600))])
def test_products_that_are_summed_in_f32_are_reported_where_f32_begins_to_round(types, sizes) -> None:
    operation = OPERATIONS["matmul"].make(sizes, types)
    assert reported(operation, operation.recipes, in_f32)
    assert not reported(operation, ("random",), in_f32)


@pytest.mark.parametrize("points", [(-128, 0), (0, 0), (5, -7)])
def test_quantized_products_that_are_summed_in_f32_are_reported(points: tuple[int, int]) -> None:
    k = 600 if points[0] == -128 else 1100
    operation = OPERATIONS["quantized_matmul"].make((8, 8, k), "i8", input_zp=points[0], weight_zp=points[1])
    assert reported(operation, operation.recipes, lambda a, b: in_f32(a - points[0], b - points[1]))


@pytest.mark.parametrize(
    ("name", "types", "sizes", "narrow"),
    [
        ("reduction", "i8", (33, 260), lambda x: x.sum(axis=1)),
        ("matmul", "i4", (16, 16, 520), lambda a, b: a @ b),
        ("matmul", "i8_i4", (16, 16, 36), lambda a, b: a @ b),
    ],
)
def test_sums_that_only_just_exceed_i16_are_reported(name, types, sizes, narrow) -> None:
    operation = OPERATIONS[name].make(sizes, types)
    in_i16 = lambda *operands: narrow(*operands).astype(np.int16)  # noqa: E731
    assert reported(operation, operation.recipes, in_i16)
    assert not reported(operation, ("random",), in_i16)


@pytest.mark.parametrize("k", [32, 64, 1024])
@pytest.mark.parametrize(
    ("types", "epilogue", "tile"),
    [
        ("i8_i4", "cast", 32),
        ("i8_i4", "bias+relu", 34),
        ("i8_i4", "none", 32),
        ("i8", "cast", 2),
        ("ui8_i8", "cast", 2),
    ],
)
def test_tiles_that_saturate_in_i16_are_reported(types: str, epilogue: str, tile: int, k: int) -> None:
    operation = OPERATIONS["matmul"].make((16, 16, k), types, epilogue=epilogue)

    def saturated(a: Any, b: Any, *bias: Any) -> Any:
        tiles = (np.clip(a[:, i : i + tile] @ b[i : i + tile], -(2**15), 2**15 - 1) for i in range(0, k, tile))
        sums = (sum(tiles) + sum(bias)).astype(np.int32)
        return np.maximum(sums, 0) if "relu" in epilogue else sums.astype(dtype_of(operation.types.result))

    assert reported(operation, operation.recipes, saturated)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [("conv2d", (1, 8, 8, 128, 8, 3, 3)), ("batch_matmul", (2, 8, 8, 1280)), ("matmul", (8, 8, 1152))],
)
def test_i8_sums_in_f32_before_a_scale_are_reported(name: str, sizes: tuple[int, ...]) -> None:
    operation = OPERATIONS[name].make(sizes, "i8", None, epilogue="scale")

    def rounded(a: Any, b: Any, scale: Any) -> Any:
        sums = operation._plain.reference([a, b]).astype(np.float32).astype(np.int64)
        return sums * operation._spread(scale)

    assert reported(operation, operation.recipes, rounded)


def test_results_before_a_relu_are_positive_and_a_bias_is_0_or_makes_them_as_large_as_possible() -> None:
    for types in ("i8", "ui8_i8"):
        operation = OPERATIONS["matmul"].make((4, 4, 64), types, epilogue="bias+relu")
        *_, bias = operands = made(operation, "largest")
        results = expected(operation, operands)
        assert not bias[1::2].any() and (results > 0).all()
        assert (results[:, ::2] > 2**31 - 2**22).all()


@pytest.mark.parametrize(
    ("name", "sizes", "types", "options"),
    [
        ("matmul", (4, 4, 31), "i8", {}),
        ("matmul", (4, 4, 64), "i16", {}),
        ("matmul", (4, 4, 64), "i4", {"epilogue": "cast"}),
        ("pooling", (1, 8, 8, 4, 6, 6), "i32", {"kind": "sum"}),
        ("reduction", (4, 64), "i8", {"kind": "max"}),
        ("matmul", (4, 4, 64), "f8E4M3FN", {}),
    ],
)
def test_other_sums_have_no_such_inputs(name, sizes, types, options) -> None:
    assert "largest" not in OPERATIONS[name].make(sizes, types, **options).recipes
