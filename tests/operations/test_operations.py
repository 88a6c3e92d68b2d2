"""The names, types, error bounds and reference results of each operation are checked, with numpy only."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from support.lines import unscaled
from support.operation_faults import seen_by
from support.project import REPOSITORY
from support.variants import SHAPES, by_name, epilogue_of, judged_by, verdicts

from dispatchflow.operations import DIMS, OPERATIONS, OPTIONS
from dispatchflow.operations._contraction import zero_points
from dispatchflow.planning.sweep_words import AXES
from dispatchflow.reports.operations import page
from dispatchflow.results import parquet
from dispatchflow.verification import power
from dispatchflow.verification.inputs import dtype_of, exact, made, random
from dispatchflow.verification.reference import expected, widened
from dispatchflow.workload import Workload

EACH = pytest.mark.parametrize("name", OPERATIONS)


@EACH
def test_operands_and_results_have_their_declared_types(name):
    for operation in by_name(name):
        operands = random(operation)
        for operand, array in zip(operation.operands(), operands, strict=True):
            assert (array.shape, array.dtype) == (operand.type.shape, dtype_of(operand.type.element))
        found = expected(operation, operands)
        assert (found.shape, found.dtype) == (operation.result().shape, dtype_of(operation.result().element))


def test_all_operations_have_distinct_labels():
    found = [operation for name in OPERATIONS for operation in by_name(name)]
    assert len({operation.shape_name for operation in found}) == len(set(found)) == len(found) > 300


def test_dims_and_options_are_columns_and_no_word_means_two_things():
    own = {"operation", *vars(Workload), *parquet.COLUMNS} - {*DIMS, *OPTIONS}
    assert not own & {*DIMS, *OPTIONS}
    assert not set(DIMS) & set(OPTIONS)
    assert set(parquet.COLUMNS) >= {*DIMS, *OPTIONS}
    for cls in OPERATIONS.values():
        for word, option in cls.options.items():
            assert isinstance(option.values, range) == isinstance(OPTIONS[word].values, range)
            assert option.parse(str(option.default)) == option.default


@EACH
def test_partial_sums_of_exact_inputs_are_exact(name):
    for operation in by_name(name):
        for recipe in operation.recipes:
            if not operation.types.accumulator.is_float:
                continue  # integer sums wrap, and stay exact
            if recipe.startswith("exact") and operation.made(recipe) is None:
                operands = [abs(operand) for operand in unscaled(operation, made(operation, recipe))]
                assert np.abs(operation.reference(operands)).max() <= 2**operation.types.accumulator.digits


@EACH
def test_a_right_result_is_not_called_wrong(name):
    # The reference's result is right, and so is its formula in the accumulator's type.
    for operation in by_name(name):
        types, right = operation.types, {"equal"} if operation.bitwise else {"equal", "within bound"}
        for recipe in operation.recipes:
            operands, judge = judged_by(operation, recipe)
            narrow = [operand.astype(dtype_of(types.accumulator)) for operand in operands]
            for given in (operands, narrow):
                with np.errstate(over="ignore", under="ignore"):
                    got = np.asarray(operation.reference(given)).astype(dtype_of(types.result))
                verdict = judge(got)
                assert verdict.word in right, (operation.shape_name, recipe, verdict)


WINDOWS = ["conv2d", "depthwise_conv2d", "pooling", "quantized_conv2d"]


def padded(image, operation, border):
    p = operation.option("padding")
    return np.pad(image, [(0, 0), (p, p), (p, p), (0, 0)], constant_values=border)


def by_loops(operation, operands):
    """Compute a convolution or pooling element by element, directly from its definition.

    The operands have the layout nhwc."""
    n, c, kh, kw = (operation.size(dim) for dim in ("n", "c", "kh", "kw"))
    stride, dilation = operation.option("stride"), operation.option("dilation")
    pooling = operation.name == "pooling"
    largest = pooling and operation.option("kind") == "max"
    points = zero_points(operation)
    if points:
        operands = [operand - point for operand, point in zip(operands, points, strict=True)]
    image = padded(operands[0], operation, -np.inf if largest else 0)
    found = np.zeros(operation.result().shape)
    for b, y, x, f in np.ndindex(*found.shape):
        seen = [(image[b, y * stride + i * dilation, x * stride + j * dilation], i, j) for i, j in np.ndindex(kh, kw)]
        if pooling:
            found[b, y, x, f] = (max if largest else sum)(pixel[f] for pixel, _, _ in seen)
        elif "f" in operation.dims:
            each = c // operation.groups
            first = f // (found.shape[3] // operation.groups) * each
            found[b, y, x, f] = sum(
                pixel[first + k] * operands[1][i, j, k, f] for pixel, i, j in seen for k in range(each)
            )
        else:
            found[b, y, x, f] = sum(pixel[f] * operands[1][i, j, f] for pixel, i, j in seen)
    assert n == found.shape[0]
    return found


@pytest.mark.parametrize("name", WINDOWS)
def test_reference_of_a_window_is_its_definition(name):
    first = next(iter(OPERATIONS[name].signatures.values()))
    shape = (2, 6, 5, 2, 4, 3, 2) if "f" in OPERATIONS[name].dims else (2, 6, 5, 2, 3, 2)
    for operation in by_name(name):
        if operation.signature is first and operation.layout.startswith("nhwc") and epilogue_of(operation) == "none":
            small = replace(operation, sizes=shape)
            if small.illegal("llvm-cpu"):
                continue
            operands = widened(exact(small))
            begun = operands[2] if getattr(small, "accumulates", False) else 0
            assert small.reference(operands).tolist() == (by_loops(small, operands) + begun).tolist()


@pytest.mark.parametrize("name", WINDOWS)
def test_channels_first_is_the_same_laid_out_otherwise(name):
    cls = OPERATIONS[name]
    for groups in (1, 2):
        last, first = (
            cls.make(SHAPES[name], layout=layout, stride=2, padding=1, groups=groups) for layout in cls.layouts
        )
        image, *weights = widened(random(last))
        moved = [np.moveaxis(image, 3, 1)]
        if weights:
            moved.append(np.transpose(weights[0], (3, 2, 0, 1)) if "f" in cls.dims else np.moveaxis(weights[0], 2, 0))
        assert np.allclose(first.reference(moved), np.moveaxis(last.reference([image, *weights]), 3, 1), rtol=1e-12)


@pytest.mark.parametrize("mask", ["no", "yes"])
@pytest.mark.parametrize("queries", [1, 3, 6])
def test_causal_attention_follows_its_definition_and_its_flops_count_visible_keys_only(queries, mask):
    attention = OPERATIONS["attention"].make((2, queries, 4, 5, 6), mask=mask, causal="yes")
    operands = widened(random(attention))
    assert np.allclose(attention.reference(operands), seen_by(attention, operands), rtol=1e-12)
    assert attention.flops() == 2 * 2 * (4 + 5) * sum(6 - queries + i + 1 for i in range(queries))
    assert np.isfinite(attention.error(operands)).all()
    assert verdicts(attention, partial(seen_by, attention)) == {"within bound"}
    from_the_first_key = verdicts(attention, partial(seen_by, attention, more=queries - 6))
    assert from_the_first_key == {"within bound" if queries == 6 else "different"}


def test_causal_attention_with_more_queries_than_keys_is_illegal():
    attention = OPERATIONS["attention"]
    assert attention.make((1, 7, 4, 5, 6), causal="no").illegal("llvm-cpu") is None
    assert "see no key" in attention.make((1, 7, 4, 5, 6), causal="yes").illegal("llvm-cpu")


def test_the_page_of_operations_is_current():
    # Run `doit docs` if this test fails.
    assert (REPOSITORY / "docs/operations.md").read_text() == page()
    assert all(f"`{axis}`" in page().partition("## ")[0] for axis in set(AXES) - {"dtype", "layout", *OPTIONS})


@pytest.mark.parametrize(("window", "recipes"), [(45, ("exact", "wide", "random")), (46, ("wide", "random"))])
def test_a_sum_that_cannot_be_thinned_out_is_exact_as_long_as_it_can_be(window, recipes):
    operation = OPERATIONS["pooling"].make((1, window, window, 1, window, window), "f16", kind="sum")
    assert operation.recipes == recipes
    assert ("operand 0 without one element" in power.unseen(operation)) == ("exact" not in recipes)
