"""Verification reports elementwise functions and maxima that are wrong for only some elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.planted import Kernel, is_reported

from dispatchflow.operations import OPERATIONS
from dispatchflow.verification.inputs import dtype_of, made
from dispatchflow.verification.reference import widened

FIRST_OF_MAXIMA = [
    *(("reduction", (8, 50), types, {"axis": axis}) for types in ("f32", "f16", "bf16", "f64", "i8", "i32") for axis in ("inner", "outer", "all")),
    *(("pooling", (1, 9, 9, 6, 3, 3), types, {"padding": 1, "stride": stride}) for types in ("f32", "f16", "f64", "i32") for stride in (1, 2)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "sizes", "types", "options"), FIRST_OF_MAXIMA)
def test_maximum_that_begins_or_pads_above_the_lowest_number_is_reported(
    name: str, sizes: tuple[int, ...], types: str, options: dict[str, Any]
) -> None:
    operation = OPERATIONS[name].make(sizes, types, None, kind="max", **options)
    element = operation.signature.operands[0]
    lowest = float(ml_dtypes.finfo(dtype_of(element)).min) if element.is_float else -(2.0**element.digits)

    def begins(first: float) -> Kernel:
        return lambda x: np.maximum(operation.reference([x]), first)

    def pads(first: float) -> Kernel:
        return lambda x: operation.laid_out(reduce(np.maximum, (part for _, _, part in operation.windows(x, first))))  # type: ignore[attr-defined]

    for kernel in (begins, pads) if name == "pooling" else (begins,):
        for part in (0.2, 0.5, 0.9, 0.98):
            first = lowest * part if element.is_float else float(int(lowest * part))
            assert is_reported(operation, kernel(first)), part
        assert not is_reported(operation, kernel(lowest))


@pytest.mark.parametrize("types", ["f32", "f16", "f64"])
@pytest.mark.parametrize("kind", ["add", "sub", "mul", "max", "relu"])
def test_elements_that_are_clamped_or_flushed_are_reported(types: str, kind: str) -> None:
    operation = OPERATIONS["elementwise"].make((5, 17), types, None, kind=kind)
    small = 1e-3 if types == "f16" else 1e-30

    def on_operands(change: Kernel) -> Kernel:
        return lambda *x: operation.reference([change(one) for one in x])

    def on_result(change: Kernel) -> Kernel:
        return lambda *x: change(operation.reference(x))

    for place in (on_operands, on_result):
        assert is_reported(operation, place(lambda x: np.clip(x, -200, 200)))
        assert is_reported(operation, place(lambda x: np.where(abs(x) < small, 0, x)))
    assert not is_reported(operation, on_result(lambda x: x))


@pytest.mark.parametrize("types", ["f32", "f64", "f16"])
@pytest.mark.parametrize("sizes", [(1, 64), (8, 8), (64, 256)])
def test_gelu_may_be_computed_with_or_without_the_complementary_error_function(
    types: str, sizes: tuple[int, ...]
) -> None:
    operation = OPERATIONS["elementwise"].make(sizes, types, None, kind="gelu")
    erf, erfc = (np.vectorize(function, otypes=[np.float64]) for function in (math.erf, math.erfc))
    root = np.sqrt(0.5)
    assert not is_reported(operation, lambda x: x * 0.5 * (1 + erf(x * root)))
    assert not is_reported(operation, lambda x: 0.5 * x * erfc(-x * root))
    assert not is_reported(operation, lambda x: 0.5 * x * erfc(-x * root).astype(dtype_of(operation.types.result)))
    assert is_reported(operation, lambda x: np.where(x < -9, -1e-3, x * 0.5 * erfc(-x * root)))
    assert is_reported(operation, lambda x: np.where(x > 9, 9, x * 0.5 * erfc(-x * root)))


@pytest.mark.parametrize(
    ("types", "sizes"), [("f32", (16, 16, 4096)), ("f32", (33, 9, 64)), ("f16", (64, 64, 64)), ("f64", (16, 16, 64))]
)
def test_gelu_of_a_sum_may_be_computed_with_the_complementary_error_function(
    types: str, sizes: tuple[int, ...]
) -> None:
    operation = OPERATIONS["matmul"].make(sizes, types, None, epilogue="bias+gelu")
    erfc = np.vectorize(math.erfc, otypes=[np.float64])
    assert not is_reported(operation, lambda a, b, bias: 0.5 * (total := a @ b + bias) * erfc(-total * np.sqrt(0.5)))


@pytest.mark.parametrize("types", ["f32", "f64", "f16"])
@pytest.mark.parametrize("sizes", [(4, 16), (64, 256)])
@pytest.mark.parametrize("kind", ["exp", "tanh", "sigmoid", "silu", "gelu"])
def test_function_that_is_wrong_for_a_part_of_the_arguments_is_reported(
    types: str, sizes: tuple[int, ...], kind: str
) -> None:
    operation = OPERATIONS["elementwise"].make(sizes, types, None, kind=kind)
    overflow = math.log(float(ml_dtypes.finfo(dtype_of(operation.types.result)).max))

    def wrong_for(part: Callable[[Any], Any]) -> Kernel:
        return lambda x: np.where(part(x), 7, operation.reference([x]))

    assert is_reported(operation, wrong_for(lambda x: x == np.inf))
    assert is_reported(operation, wrong_for(lambda x: (x > 4.05 * overflow) & np.isfinite(x)))
    assert is_reported(operation, wrong_for(lambda x: (x < -4.05 * overflow) & np.isfinite(x)))
    assert is_reported(operation, wrong_for(lambda x: (abs(x) > 4.05 * overflow) & np.isfinite(x)))
    assert kind in ("silu", "gelu") or is_reported(operation, wrong_for(lambda x: x == -np.inf))
    assert not is_reported(operation, wrong_for(np.isnan))


@pytest.mark.parametrize("types", ["f32", "f64", "f16", "i32"])
@pytest.mark.parametrize("sizes", [(5, 17), (64, 256)])
def test_relu_that_lets_some_negative_numbers_pass_is_reported(types: str, sizes: tuple[int, ...]) -> None:
    operation = OPERATIONS["elementwise"].make(sizes, types, None, kind="relu")
    least, most = {"f16": (-1e-3, -1e4), "i32": (-4, -1e6)}.get(types, (-1e-30, -1e30))

    def passing(part: Callable[[Any], Any]) -> Kernel:
        return lambda x: np.where(part(x), x, np.maximum(x, 0))

    assert is_reported(operation, passing(lambda x: x < -4))
    assert is_reported(operation, passing(lambda x: x < most))
    assert is_reported(operation, passing(lambda x: x > least))
    assert is_reported(operation, lambda x: np.where(x > -most, 0, np.maximum(x, 0)))
    assert not is_reported(operation, passing(lambda x: x > 0))


@pytest.mark.parametrize("types", ["f32", "f64", "f16", "i32"])
@pytest.mark.parametrize("sizes", [(16, 16), (64, 256)])
def test_maximum_that_is_wrong_for_some_signs_or_magnitudes_is_reported(types: str, sizes: tuple[int, ...]) -> None:
    operation = OPERATIONS["elementwise"].make(sizes, types, None, kind="max")
    large = 1e30 if types in ("f32", "f64") else 10

    def wrong_for(part: Callable[[Any, Any], Any]) -> Kernel:
        return lambda x, y: np.where(part(x, y), np.minimum(x, y), np.maximum(x, y))

    assert is_reported(operation, lambda x, y: np.where(np.maximum(x, y) > 4, 0, np.maximum(x, y)))
    assert is_reported(operation, wrong_for(lambda x, y: (x > large) & (y > large)))
    assert is_reported(operation, wrong_for(lambda x, y: (x > large) & (y < -large)))
    assert is_reported(operation, wrong_for(lambda x, y: (x < -large) & (y > large)))
    assert is_reported(operation, wrong_for(lambda x, y: (x < -large) & (y < -large)))
    assert not is_reported(operation, wrong_for(lambda x, y: x == y))


@pytest.mark.parametrize("types", ["f32", "f64", "f16", "i32"])
@pytest.mark.parametrize("kind", ["relu", "max"])
def test_single_element_that_is_read_as_0_is_reported_wherever_it_is(types: str, kind: str) -> None:
    operation = OPERATIONS["elementwise"].make((6, 7), types, None, kind=kind)
    recipes = [widened(made(operation, recipe)) for recipe in operation.recipes]
    for index, place in product(range(len(operation.operands())), np.ndindex(6, 7)):
        lost = [[np.copy(x) for x in operands] for operands in recipes]
        for operands in lost:
            operands[index][place] = 0
        assert any(
            operation.reference(operands)[place] != operation.reference(without)[place]
            for operands, without in zip(recipes, lost, strict=True)
        )
