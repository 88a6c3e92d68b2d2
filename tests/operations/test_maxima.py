"""Verification reports a kernel that skips elements of a maximum, or uses the result of another line."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from support.planted import is_reported

from dispatchflow.operations import OPERATIONS, Operation
from dispatchflow.verification.inputs import made
from dispatchflow.verification.reference import widened

REDUCTION, POOLING, ELEMENTWISE = (OPERATIONS[name] for name in ("reduction", "pooling", "elementwise"))
LINES = [*product(REDUCTION.signatures, [(2, 16), (3, 1000), (6, 10007), (63, 65), (64, 2), (3, 65537)])]


def reduction(types: str, sizes: tuple[int, ...], axis: str = "inner") -> Operation:
    return REDUCTION.make(sizes if axis != "outer" else sizes[::-1], types, None, kind="max", axis=axis)


@pytest.mark.parametrize(("types", "sizes"), LINES)
@pytest.mark.parametrize("axis", ["inner", "outer"])
def test_a_result_that_belongs_to_another_line_is_reported(types: str, sizes: tuple[int, ...], axis: str) -> None:
    operation, lines = reduction(types, sizes, axis), np.arange(sizes[0])
    exchanged = np.where(lines % 3 == 0, lines, lines % 3 ^ 3 | lines // 3 * 3)
    for order in (np.maximum(lines - 1, 0), np.minimum(lines, len(lines) - 2), np.minimum(exchanged, len(lines) - 1)):
        if (order != lines).any():
            assert is_reported(operation, lambda x, order=order: operation.reference([x])[order])
    assert not is_reported(operation, lambda x: operation.reference([x]))


@pytest.mark.parametrize(("types", "sizes"), [*LINES, ("i8", (300, 9)), ("f16", (1000, 5))])
def test_a_maximum_that_begins_with_the_result_of_an_earlier_line_is_reported(
    types: str, sizes: tuple[int, ...]
) -> None:
    operation = reduction(types, sizes)
    recipes = [operation.reference(widened(made(operation, recipe))) for recipe in operation.recipes]
    for line in range(1, sizes[0]):
        assert any(results[line] < results[line - 1] for results in recipes), line


@pytest.mark.parametrize("types", REDUCTION.signatures)
@pytest.mark.parametrize(
    ("sizes", "axis"), [((1, 65537), "inner"), ((1, 1000003), "inner"), ((64, 65536), "all"), ((1, 30), "inner")]
)
def test_a_maximum_that_reads_only_one_end_of_a_line_is_reported(types: str, sizes: tuple[int, ...], axis: str) -> None:
    operation, length = reduction(types, sizes, axis), max(sizes)
    for columns in (slice(max(1, length - 1024), None), slice(0, length - 1), slice(0, length - length // 3)):
        assert is_reported(operation, lambda x, columns=columns: operation.reference([x[:, columns]]))


@pytest.mark.parametrize("types", REDUCTION.signatures)
@pytest.mark.parametrize("length", [8, 20, 40, 512, 640, 768, 896, 1000, 1024, 2000])
@pytest.mark.parametrize("axis", ["inner", "outer"])
def test_a_maximum_that_loses_vector_lanes_is_reported(types: str, length: int, axis: str) -> None:
    operation = reduction(types, (64, length), axis)
    for lanes in ([0, 7], [0, 3, 4, 7], [0, 1, 2, 4, 5, 6, 7]):
        kept = np.isin(np.arange(length) % 8, lanes)
        assert is_reported(
            operation, lambda x, kept=kept: operation.reference([x[kept] if axis == "outer" else x[:, kept]])
        )


@pytest.mark.parametrize("types", [types for types in REDUCTION.signatures if "f" in types])
@pytest.mark.parametrize(
    ("sizes", "axis"), [((1, 40), "inner"), ((9, 40), "all"), ((40, 64), "inner"), ((3, 5), "outer")]
)
def test_a_maximum_that_is_clamped_is_reported(types: str, sizes: tuple[int, ...], axis: str) -> None:
    operation = reduction(types, sizes, axis)
    assert is_reported(operation, lambda x: np.minimum(operation.reference([x]), 6))


@pytest.mark.parametrize("types", [types for types in POOLING.signatures if "f" in types])
@pytest.mark.parametrize("sizes", [(1, 8, 8, 1, 2, 2), (2, 12, 12, 8, 3, 3)])
def test_a_largest_pixel_that_is_clamped_is_reported(types: str, sizes: tuple[int, ...]) -> None:
    operation = POOLING.make(sizes, types, None, kind="max")
    assert is_reported(operation, lambda x: np.minimum(operation.reference([x]), 6))


@pytest.mark.parametrize("types", POOLING.signatures)
@pytest.mark.parametrize("layout", POOLING.layouts)
@pytest.mark.parametrize("sizes", [(1, 28, 28, 6, 28, 28), (1, 56, 56, 64, 56, 56), (2, 12, 12, 3, 12, 12)])
def test_a_large_window_without_its_last_row_or_of_another_channel_is_reported(
    types: str, layout: str, sizes: tuple[int, ...]
) -> None:
    operation = POOLING.make(sizes, types, layout, kind="max")
    axes = {letter: axis for axis, letter in enumerate(layout)}

    def of(x: Any, change: Callable[[Any], Any]) -> Any:
        return change(np.moveaxis(x, [axes[letter] for letter in "nchw"], [0, 1, 2, 3]))

    def result(largest: Any) -> Any:
        return np.moveaxis(largest[:, :, None, None], [0, 1, 2, 3], [axes[letter] for letter in "nchw"])

    order = np.minimum(np.arange(sizes[3]), sizes[3] - 2)
    assert not is_reported(operation, lambda x: result(of(x, lambda image: image.max(axis=(2, 3)))))
    assert is_reported(operation, lambda x: result(of(x, lambda image: image[:, :, :-1].max(axis=(2, 3)))))
    assert is_reported(operation, lambda x: result(of(x, lambda image: image[:, :, :, :-1].max(axis=(2, 3)))))
    assert is_reported(operation, lambda x: result(of(x, lambda image: image.max(axis=(2, 3))[:, order])))


@pytest.mark.parametrize("types", ELEMENTWISE.signatures)
@pytest.mark.parametrize("sizes", [(1, 1), (1, 25), (6, 7), (64, 77)])
def test_each_element_is_copied_or_compared_without_its_sign_in_one_recipe(types: str, sizes: tuple[int, ...]) -> None:
    operation = ELEMENTWISE.make(sizes, types, None, kind="max")
    recipes = [widened(made(operation, recipe)) for recipe in operation.recipes]
    rights = [np.maximum(x, y) for x, y in recipes]
    for index in (0, 1):
        copied = [operands[index] != right for operands, right in zip(recipes, rights, strict=True)]
        assert (copied[0] | copied[1]).all()
    without_sign = [np.where((x < 0) != (y < 0), np.minimum(x, y), np.maximum(x, y)) for x, y in recipes]
    seen = [wrong != right for wrong, right in zip(without_sign, rights, strict=True)]
    assert (seen[0] | seen[1] | (np.arange(rights[0].size).reshape(sizes) % 8 == 3)).all()
    assert any((right < 0).any() for right in rights)
