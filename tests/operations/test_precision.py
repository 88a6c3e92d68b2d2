"""Verification reports kernels that round operands or sums to a type that is too narrow.

Sums of few and of many terms are tested. A kernel that only adds the terms in another order is not reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.planted import is_reported
from support.variants import is_told

from dispatchflow.operations import OPERATIONS, Operation
from dispatchflow.verification import power

SIZES = (64, 100, 128, 1000, 1024, 4096, 5000, 16384, 65536)
FLAGS = (
    "--iree-global-opt-demote-contraction-inputs-operations=matmul --iree-global-opt-demote-contraction-inputs-type="
)


def product(k: int, types: str = "f32", m: int = 12, n: int = 16) -> Operation:
    return OPERATIONS["matmul"].make((m, n, k), types)


def rounded(array: Any, digits: int) -> Any:
    """Round each element to `digits` binary digits, ties to even. The exponent may be of any size."""
    fraction, exponent = np.frexp(array)
    return np.ldexp(np.round(np.ldexp(fraction, digits)), exponent - digits)


def in_order(products: Any, dtype: Any) -> Any:
    """Sum `products` over the last axis, one term after another; round each partial sum to `dtype`."""
    return np.add.accumulate(products.astype(dtype), axis=-1)[..., -1]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
def test_sums_in_order_are_rounded_after_each_term(dtype: Any) -> None:
    products = np.random.default_rng(1).uniform(-1, 1, (3, 500))
    total = np.zeros(3, dtype)
    for i in range(500):
        total = (total + products[:, i].astype(dtype)).astype(dtype)
    assert in_order(products, dtype).tobytes() == total.tobytes()


def terms(a: Any, b: Any) -> Any:
    return a[:, None, :] * b.T[None, :, :]


NARROW: dict[str, Callable[[Any], Any]] = {
    "f16": lambda x: x.astype(np.float16).astype(np.float64),
    "bf16": lambda x: x.astype(ml_dtypes.bfloat16).astype(np.float64),
    "TF32": lambda x: rounded(x, 11),
    "two bf16": lambda x: rounded(x, 16),
}


# pytest changes the last parameter last: tests of one operation follow each other, and share cached inputs and bounds.
@pytest.mark.parametrize("side", ["both", "first", "second"])
@pytest.mark.parametrize("narrow", NARROW)
@pytest.mark.parametrize("k", SIZES)
def test_f32_operands_that_lose_digits_are_found(k: int, narrow: str, side: str) -> None:
    def wrong(operands: Any) -> Any:
        a, b = operands
        a = NARROW[narrow](a) if side != "second" else a
        b = NARROW[narrow](b) if side != "first" else b
        return a @ b

    assert is_told(product(k), wrong)


@pytest.mark.parametrize("narrow", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.bfloat16])
@pytest.mark.parametrize("types", ["f16", "f16_f32", "f16_f32_f16"])
@pytest.mark.parametrize("k", [64, 1024, 16384])
def test_f16_operands_that_lose_digits_are_found(k: int, narrow: Any, types: str) -> None:
    def wrong(operands: Any) -> Any:
        a, b = (x.astype(narrow).astype(np.float64) for x in operands)
        return a @ b

    assert is_told(product(k, types), wrong)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("block", [16, 64, 0])
@pytest.mark.parametrize("types", ["f32", "f16_f32", "bf16"])
@pytest.mark.parametrize("k", [64, 1024, 16384, 65536])
def test_a_sum_that_is_narrow_within_blocks_is_found(k: int, dtype: Any, block: int, types: str) -> None:
    # Block 0 is the complete sum.
    def wrong(operands: Any) -> Any:
        each = terms(*operands)
        parts = in_order(each.reshape(*each.shape[:-1], -1, block or k), dtype)
        return parts.astype(np.float64).sum(axis=-1)

    assert is_told(product(k, types, m=4, n=4), wrong)


ORDERS: dict[str, Callable[[Any, Any], Any]] = {
    "one after another": in_order,
    "backwards": lambda t, dtype: in_order(t[..., ::-1], dtype),
    "in 8 lanes": lambda t, dtype: in_order(
        in_order(np.moveaxis(t.reshape(*t.shape[:-1], -1, 8), -2, -1), dtype), dtype
    ),
    "in blocks of 64": lambda t, dtype: in_order(in_order(t.reshape(*t.shape[:-1], -1, 64), dtype), dtype),
    "largest first": lambda t, dtype: in_order(np.take_along_axis(t, np.argsort(-abs(t), axis=-1), -1), dtype),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("types", "dtype"), [("f32", np.float32), ("f16", np.float16), ("f16_f32", np.float32)])
@pytest.mark.parametrize("k", [64, 1024, 16384])
def test_no_order_of_summation_is_found_wrong(k: int, order: str, types: str, dtype: Any) -> None:
    def right(operands: Any) -> Any:
        return ORDERS[order](terms(*operands).astype(dtype), dtype)

    assert not is_told(product(k, types, m=4, n=4), right)


@pytest.mark.parametrize("name", ["conv2d", "depthwise_conv2d", "batch_matmul", "matvec", "vecmat", "matmul_splitk"])
@pytest.mark.parametrize("narrow", ["f16", "bf16", "TF32"])
def test_narrowed_operands_are_found_in_convolutions_and_other_products_too(name: str, narrow: str) -> None:
    sizes = {
        "conv2d": (1, 10, 10, 64, 8, 3, 3),
        "depthwise_conv2d": (1, 10, 10, 64, 3, 3),
        "batch_matmul": (2, 8, 8, 1024),
        "matmul_splitk": (8, 8, 4096),
    }.get(name, (8, 4096))
    for layout in OPERATIONS[name].layouts:
        operation = replace(OPERATIONS[name].make(sizes), layout=layout)
        for index in (0, 1):

            def wrong(operands: Any, index: int = index, operation: Operation = operation) -> Any:
                changed = [NARROW[narrow](x) if i == index else x for i, x in enumerate(operands)]
                return operation.reference(changed)

            assert is_told(operation, wrong), (operation.label, index)


def truncated(array: Any, digits: int) -> Any:
    fraction, exponent = np.frexp(array)
    return np.ldexp(np.trunc(np.ldexp(fraction, digits)), exponent - digits)


FIRST: dict[str, Callable[[Any, int], Any]] = {
    "truncated": truncated,
    "rounded to one digit less": lambda x, digits: rounded(x, digits - 1),
    "truncated to one digit less": lambda x, digits: truncated(x, digits - 1),
}


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("types", ["f16_f32_f16", "bf16_f32_bf16"])
@pytest.mark.parametrize("sizes", [(64, 64, 64, 64), (1, 64, 64, 64), (8, 8, 100, 37), (16, 16, 1024, 64)])
def test_a_first_product_of_a_chain_that_is_not_rounded_to_nearest_is_found(
    sizes: tuple[int, ...], types: str, first: str
) -> None:
    operation = OPERATIONS["chain"].make(sizes, types)
    digits = operation.types.result.digits
    assert is_told(operation, lambda x: FIRST[first](x[0] @ x[1], digits) @ x[2])
    assert not is_told(operation, lambda x: rounded(x[0] @ x[1], digits) @ x[2])


PLACES = {
    "but the first four": lambda size: slice(4, None),
    "but the ends": lambda size: slice(size // 64, size - size // 64),
    "the odd ones": lambda size: slice(1, None, 2),
    "the even ones": lambda size: slice(0, None, 2),
    "every eighth": lambda size: slice(3, None, 8),
}


@pytest.mark.parametrize("side", ["both", 0, 1])
@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize(
    ("name", "sizes", "types", "digits"),
    [
        ("matmul", (1, 512, 4096), "f16", 3),
        ("matmul", (512, 1, 4096), "f32", 16),
        ("matmul", (16, 64, 4096), "f16", 3),
        ("matmul", (16, 16, 65536), "f32", 13),
        ("matmul", (64, 64, 1024), "bf16_bf16", 3),
        ("vecmat", (512, 4096), "f32", 16),
        ("matvec", (512, 4096), "f32", 16),
        ("batch_matmul", (8, 1, 64, 4096), "f16", 3),
        ("matmul_splitk", (16, 64, 16384), "f16", 3),
        ("conv2d", (1, 14, 14, 256, 16, 3, 3), "f16", 4),
        ("conv2d", (1, 7, 7, 512, 8, 1, 1), "f32", 16),
    ],
)
def test_digits_that_are_lost_at_some_places_of_a_sum_are_found(
    name: str, sizes: tuple[int, ...], types: str, digits: int, places: str, side: str | int
) -> None:
    operation = OPERATIONS[name].make(sizes, types)

    def wrong(operands: Any) -> Any:
        for i, operand in enumerate(operation.operands()):
            if side in ("both", i):
                assert operand.shared is not None
                lines = operands[i].swapaxes(0, operand.shared)
                lines[where] = rounded(lines[where], digits)
        return operation.reference(operands)

    shared = operation.operands()[0]
    where = PLACES[places](shared.type.shape[shared.shared or 0])
    assert is_told(operation, wrong)


def pieces(x: Any, dtype: Any, count: int) -> list[Any]:
    """Return `count` float64 arrays whose elements are rounded to `dtype` and whose sum is almost `x`.

    The first array has the largest numbers."""
    found: list[Any] = []
    for _ in range(count):
        found.append((x - sum(found)).astype(dtype).astype(np.float64))
    return found


@pytest.mark.parametrize(
    ("name", "sizes"),
    [("matmul", (8, 8, 64)), ("matmul", (1, 16, 4096)), ("matmul", (8, 8, 65536)), ("vecmat", (8, 256))],
)
def test_a_product_of_three_bf16_pieces_without_that_of_the_middle_ones_is_found(
    name: str, sizes: tuple[int, ...]
) -> None:
    operation = OPERATIONS[name].make(sizes)

    def without(*left: tuple[int, int]) -> Callable[[Any], Any]:
        def result(operands: Any) -> Any:
            a, b = (pieces(x, ml_dtypes.bfloat16, 3) for x in operands)
            kept = [(i, j) for i in range(3) for j in range(3) if (i, j) not in left]
            return sum(a[i] @ b[j] for i, j in kept)

        return result

    smallest = ((1, 2), (2, 1), (2, 2))
    assert is_told(operation, without((1, 1), *smallest))
    assert not is_told(operation, without(*smallest))


@pytest.mark.iree
@pytest.mark.parametrize(("k", "narrow"), [(64, "bf16"), (8192, "f16"), (65536, "bf16")])
def test_a_compiler_that_demotes_operands_is_found(k: int, narrow: str, tmp_path: Path) -> None:
    from support.project import Project

    project = Project.make(tmp_path / "project")
    outcome = project.doit(
        "m=32", "n=32", f"k={k}", "threads=1", "dtype=f32", f"flags=;{FLAGS}{narrow}", "verify:*", protocol="fast"
    )
    assert outcome.code == 1, str(outcome)
    assert "1 failed" in outcome.out
    assert "result elements are wrong on the set of inputs" in outcome.out  # on the exact or the wide inputs


@pytest.mark.parametrize(("name", "sizes", "groups"), [
    ("conv2d", (1, 14, 14, 32, 32, 3, 3), 8),
    ("conv2d", (1, 28, 28, 1, 32, 5, 5), 1),
    ("depthwise_conv2d", (1, 14, 14, 1, 5, 5), 1),
])  # fmt: skip
@pytest.mark.parametrize("types", ["f32", "f16", "f16_f32"])
@pytest.mark.parametrize("side", [0, 1])
def test_each_factor_of_a_convolution_of_few_channels_has_all_digits(
    name: str, sizes: tuple[int, ...], groups: int, types: str, side: int
) -> None:
    options = {"groups": groups} if groups > 1 else {}
    operation = OPERATIONS[name].make(sizes, types, None, **options)
    narrow = NARROW["bf16"]

    def kernel(*operands: Any) -> Any:
        return operation.reference([narrow(x) if i == side else x for i, x in enumerate(operands)])

    assert is_reported(operation, kernel)


def test_a_long_convolution_in_groups_is_trusted_in_f16() -> None:
    operation = OPERATIONS["conv2d"].make((1, 14, 14, 512, 512, 3, 3), "f16", None, groups=32)
    assert power.unseen(operation) == []


@pytest.mark.parametrize("types", ["f32", "f16", "f16_f32", "bf16_f32_bf16"])
@pytest.mark.parametrize(("name", "sizes"), [("matmul", (16, 64, 64)), ("conv2d", (1, 8, 8, 16, 32, 3, 3))])
def test_a_scale_that_is_clamped_or_flushed_is_reported(types: str, name: str, sizes: tuple[int, ...]) -> None:
    operation = OPERATIONS[name].make(sizes, types, None, epilogue="scale")

    def with_scale(change: Any) -> Any:
        return lambda *operands: operation.reference([*operands[:-1], change(operands[-1])])

    assert is_reported(operation, with_scale(lambda s: np.clip(s, -3, 3)))
    assert is_reported(operation, with_scale(lambda s: np.where(abs(s) < 2.0**-2, 0, s)))
    assert not is_reported(operation, with_scale(lambda s: s))
