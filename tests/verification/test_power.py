"""`power.unseen` lists the kernel errors that the verification of an operation would not detect.

To find them, it plants errors in the operands of the numpy reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.variants import by_name

from dispatchflow.operations import OPERATIONS, Operation
from dispatchflow.verification import inputs, power

GELU = {"epilogue": "bias+gelu"}
# Earlier versions accepted wrong results of these operations: a kernel that forgot the product, attention in fp8,
# a chain in f16, a sum of bf16 numbers.
OVERLOOKED_ONCE: list[tuple[str, tuple[int, ...], str, dict[str, Any]]] = [
    ("matmul", (16, 16, 4096), "f16", GELU),
    ("matmul", (64, 64, 16384), "f16", GELU),
    ("batch_matmul", (2, 9, 14, 3000), "f16", GELU),
    ("conv2d", (1, 9, 9, 160, 10, 3, 3), "f16", GELU),
    ("chain", (16, 16, 2048, 2048), "f32", {}),
    ("chain", (13, 200, 17, 700), "f16", {}),
    ("attention", (1, 32, 64, 128, 4096), "f32", {}),
    ("attention", (2, 64, 64, 64, 1024), "f16", {}),
    ("attention", (1, 1, 128, 128, 8192), "f16", {}),
    ("attention", (1, 24, 24, 64, 1000), "f16", {"mask": "yes"}),
    ("reduction", (1024, 4096), "f32", {"axis": "all"}),
    ("reduction", (5, 65536), "f32", {}),
    ("matmul", (20, 24, 20000), "f32", {"epilogue": "bias"}),
    ("matmul", (20, 24, 3000), "f32", {"epilogue": "residual"}),
    ("matmul", (13, 17, 3000), "bf16_bf16", {}),
    ("softmax", (1, 32000), "f32", {}),
    ("matmul", (1, 512, 512), "f8E4M3FN", {"epilogue": "cast"}),
    ("matmul", (512, 512, 65536), "f8E5M2", {"epilogue": "cast"}),
    ("matmul", (1, 33, 4097), "bf16_f32_bf16", {"epilogue": "bias+relu"}),
]


@pytest.mark.parametrize(("name", "sizes", "types", "options"), OVERLOOKED_ONCE, ids=str)
def test_errors_that_were_once_missed_are_detected(
    name: str, sizes: tuple[int, ...], types: str, options: dict[str, Any]
) -> None:
    assert power.unseen(OPERATIONS[name].make(sizes, types, None, **options)) == []


@pytest.mark.parametrize("sizes", [(1, 24, 40), (3, 24, 40), (1, 100, 100)], ids=str)
def test_each_element_of_integers_shows_in_a_result_that_wraps_to_their_width(sizes: tuple[int, ...]) -> None:
    operation = OPERATIONS["matmul"].make(sizes, "i4", None, epilogue="cast")
    for recipe in (recipe for recipe in operation.recipes if recipe != "random"):
        a, b = (operand.astype(np.int64) for operand in inputs.made(operation, recipe))
        assert ((a[:, :, None] * b) % 16 != 0).all(), recipe


@pytest.mark.parametrize("types", ["f8E4M3FN", "f8E5M2"])
@pytest.mark.parametrize("sizes", [(1, 24, 512), (2, 24, 41), (40, 40, 300)], ids=str)
def test_each_product_shows_in_a_sum_that_is_rounded_to_f8(sizes: tuple[int, ...], types: str) -> None:
    operation = OPERATIONS["matmul"].make(sizes, types, None, epilogue="cast")
    a, b = (operand.astype(np.float64) for operand in inputs.made(operation, "exact2"))
    terms, narrow = a[:, :, None] * b, inputs.dtype_of(operation.types.result)
    sums = terms.sum(axis=1, keepdims=True)
    assert (sums.astype(narrow) != (sums - terms).astype(narrow)).all()


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=[pytest.mark.slow, pytest.mark.nightly])])
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_error_is_detected_at_small_sizes_except_in_bf16_sums(name: str, every: int) -> None:
    for operation in by_name(name)[::every]:
        assert not power.unseen(operation) or operation.types.accumulator.mlir == "bf16", operation


def test_errors_that_only_an_omitted_recipe_detects_are_listed_as_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    operation = OPERATIONS["matmul"].make((16, 16, 4096), "f16")
    monkeypatch.setattr(type(operation), "recipes", ("random",))
    unseen = power.unseen(operation)
    assert "operand 0 without one line of axis 1" in unseen
    assert "operand 1 without one element" in unseen
    assert "operand 0 in 5 of its 11 digits" in unseen
    assert "operand 0 read as zeros" not in unseen


def test_digits_that_are_lost_at_untested_places_of_a_sum_are_listed_as_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    operation = OPERATIONS["matmul"].make((16, 16, 4096), "f16")
    assert power.unseen(operation) == []
    monkeypatch.setattr(inputs, "stride", lambda terms: 1)  # the recipes then test only the first and the last terms
    assert power.unseen(operation) == [
        f"operand {i} in 5 of its 11 digits at some places of axis {1 - i}" for i in (0, 1)
    ]


@pytest.mark.parametrize("k", [8, 11, 64, 1000, 4096, 4097])
@pytest.mark.parametrize("types", ["f32", "f16", "f64"])
def test_sums_of_one_to_eight_rows_or_columns_are_not_mistrusted(types: str, k: int) -> None:
    for sizes in ((1, 1, k), (1, 8, k), (2, 3, k), (8, 8, k)):
        operation = OPERATIONS["matmul"].make(sizes, types)
        assert not [error for error in power.unseen(operation) if "digits" in error], sizes


@pytest.mark.parametrize("channels", [1, 3, 5, 8])
def test_convolutions_of_few_channels_are_not_mistrusted(channels: int) -> None:
    for types in ("f32", "f16"):
        assert power.unseen(OPERATIONS["conv2d"].make((1, 9, 9, channels, 8, 3, 3), types)) == []
        assert power.unseen(OPERATIONS["depthwise_conv2d"].make((1, 9, 9, channels, 3, 3), types)) == []


def test_an_error_bound_that_allows_everything_detects_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    operation = OPERATIONS["elementwise"].make((8, 8), "f32", None, kind="tanh")
    monkeypatch.setattr(type(operation), "error_on", lambda self, recipe, operands: np.full((8, 8), 1e9))
    assert "operand 0 read as zeros" in power.unseen(operation)


def test_elements_that_do_not_affect_the_result_are_not_listed_as_unseen() -> None:
    # Pixels between windows have no effect, nor has the mask of keys that a causal query cannot see.
    assert power.unseen(OPERATIONS["pooling"].make((1, 9, 9, 2, 1, 1), "f32", None, stride=4)) == []
    assert power.unseen(OPERATIONS["attention"].make((1, 16, 16, 8, 16), "f32", None, mask="yes", causal="yes")) == []


def test_errors_in_operands_that_the_reference_rejects_are_listed_as_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    operation = OPERATIONS["transpose"].make((3, 4), "f32")
    reference = type(operation).reference

    def of_nonzero(self: Operation, operands: Any) -> Any:
        assert operands[0].all()
        return reference(self, operands)

    monkeypatch.setattr(type(operation), "reference", of_nonzero)
    assert "operand 0 read as zeros" in power.unseen(operation)


def test_an_excerpt_has_the_same_sums_for_fewer_results() -> None:
    def sizes(name: str, *given: int, types: str | None = None) -> tuple[int, ...]:
        return power.excerpt(OPERATIONS[name].make(given, types)).sizes

    assert sizes("matmul", 4096, 4096, 65536) == (32, 32, 65536)
    assert sizes("matmul", 4096, 4096, 65536, types="bf16_bf16") == (256, 256, 65536)
    assert sizes("batch_matmul", 32, 7, 4096, 64) == (2, 7, 32, 64)
    assert sizes("attention", 8, 512, 128, 128, 4096) == (2, 32, 32, 128, 4096)
    assert sizes("reduction", 512, 65536) == (32, 65536)


@pytest.mark.parametrize("m", [4, 64])
def test_elements_of_a_narrow_softmax_are_seen(m):
    assert power.unseen(OPERATIONS["softmax"].make((m, 4096), "f16_f32_f16")) == []
