"""Every operation of the registry, in numpy alone: names, exactness, bounds, and what a wrong result is told by."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from real import REPOSITORY

from dispatchflow import results
from dispatchflow.inputs import dtype_of, exact, made, mistrust, random
from dispatchflow.operations import DIMS, OPERATIONS, OPTIONS, Operation
from dispatchflow.operations._contraction import zero_points
from dispatchflow.operations._formula import function
from dispatchflow.program import Program
from dispatchflow.reference import _wide, bounds, expected
from dispatchflow.reports.operations import page
from dispatchflow.verdict import compare_bits, compare_bounded

SHAPES = {
    "conv2d": (2, 7, 7, 4, 6, 3, 3),
    "quantized_conv2d": (2, 7, 7, 3, 4, 3, 3),
    "depthwise_conv2d": (2, 7, 7, 3, 3, 3),
    "pooling": (2, 7, 7, 3, 3, 3),
    "batch_matmul": (3, 8, 8, 8),
    "matmul_splitk": (12, 12, 12),
    "chain": (8, 6, 8, 8),
}


def variants(cls: type[Operation]) -> Iterator[Operation]:
    """All types, layouts and options; of numbers the default and the first two. Of the first type up to two options
    differ from their defaults, of the others one."""
    sizes = SHAPES.get(cls.name, (8,) * len(cls.dims))
    values = [
        dict.fromkeys((option.default, *option.values[:2])) if isinstance(option.values, range) else option.values
        for option in cls.options.values()
    ]
    for word, layout, chosen in product(cls.signatures, cls.layouts, product(*values)):
        operation = cls(sizes, cls.signatures[word], layout, tuple(chosen))
        changed = sum(a != b for a, b in zip(operation.chosen, cls.make(sizes).chosen, strict=True))
        if changed <= 1 + (word == next(iter(cls.signatures))) and operation.illegal("llvm-cpu") is None:
            yield operation


def epilogue_of(operation: Operation) -> str:
    return operation.option("epilogue") if "epilogue" in operation.options else "none"


def other(operation: Operation, **changed: Any) -> Operation:
    """The same with other options."""
    chosen = tuple(changed.get(word, value) for word, value in zip(operation.options, operation.chosen, strict=True))
    return replace(operation, chosen=chosen)


ALL = [operation for cls in OPERATIONS.values() for operation in variants(cls)]
BY_NAME = {name: [operation for operation in ALL if operation.name == name] for name in OPERATIONS}
EACH = pytest.mark.parametrize("name", OPERATIONS)


def verdicts(operation: Operation, result: Callable[[list[Any]], Any]) -> set[str]:
    """What verification says of this result, from operands in float64 or int64, on each recipe."""
    found = set()
    for recipe in operation.recipes:
        if recipe == "exact" and mistrust(operation):
            continue
        operands = made(operation, recipe)
        got = np.asarray(result(_wide(operands))).astype(dtype_of(operation.types.result))
        if recipe == "exact" or operation.bitwise:
            found.add(compare_bits(got, expected(operation, operands)).word)
        else:
            found.add(compare_bounded(got, *bounds(operation, operands)).word)
    return found


@EACH
def test_operands_and_results_have_their_declared_types(name):
    for operation in BY_NAME[name]:
        operands = random(operation)
        for operand, array in zip(operation.operands(), operands, strict=True):
            assert (array.shape, array.dtype) == (operand.type.shape, dtype_of(operand.type.element))
        found = expected(operation, operands)
        assert (found.shape, found.dtype) == (operation.result().shape, dtype_of(operation.result().element))


def test_labels_tell_all_operations_apart():
    assert len({operation.shape_name for operation in ALL}) == len(set(ALL)) == len(ALL) > 300


def test_dims_and_options_are_columns_and_no_word_means_two_things():
    own = {"operation", *vars(Program), *results.COLUMNS} - {*DIMS, *OPTIONS}
    assert not own & {*DIMS, *OPTIONS}
    assert not set(DIMS) & set(OPTIONS)
    assert set(results.COLUMNS) >= {*DIMS, *OPTIONS}
    for cls in OPERATIONS.values():
        for word, option in cls.options.items():
            assert isinstance(option.values, range) == isinstance(OPTIONS[word].values, range)
            assert option.parse(str(option.default)) == option.default


@EACH
def test_partial_sums_of_exact_inputs_are_exact(name):
    for operation in BY_NAME[name]:
        if "exact" in operation.recipes and mistrust(operation) is None:
            digits = min(operation.types.accumulator.digits, operation.types.result.digits)
            operands = [abs(operand) for operand in _wide(exact(operation))]
            assert np.abs(operation.reference(operands)).max() <= 2**digits


@EACH
def test_what_arithmetic_in_the_own_types_gives_is_right(name):
    """The reference's formula in the accumulator's type, its result rounded to the result's."""
    for operation in BY_NAME[name]:
        types = operation.types
        for recipe in operation.recipes:
            operands = made(operation, recipe)
            narrow = [operand.astype(dtype_of(types.accumulator)) for operand in operands]
            with np.errstate(over="ignore"):
                got = np.asarray(operation.reference(narrow)).astype(dtype_of(types.result))
            if operation.bitwise:
                assert compare_bits(got, expected(operation, operands)).word == "equal", operation.shape_name
            else:
                verdict = compare_bounded(got, *bounds(operation, operands))
                assert verdict.word == "within bound", (operation.shape_name, verdict)


WINDOWS = ["conv2d", "depthwise_conv2d", "pooling", "quantized_conv2d"]


def padded(image, operation, border):
    p = operation.option("padding")
    return np.pad(image, [(0, 0), (p, p), (p, p), (0, 0)], constant_values=border)


def by_loops(operation, operands, turned=False):
    """The definition of a convolution or pooling, element by element, of nhwc."""
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
    for operation in BY_NAME[name]:
        if operation.signature is first and operation.layout.startswith("nhwc") and epilogue_of(operation) == "none":
            small = replace(operation, sizes=shape)
            if small.illegal("llvm-cpu"):
                continue
            operands = _wide(exact(small))
            assert small.reference(operands).tolist() == by_loops(small, operands).tolist()


@pytest.mark.parametrize("name", WINDOWS)
def test_channels_first_is_the_same_laid_out_otherwise(name):
    cls = OPERATIONS[name]
    for groups in (1, 2):
        last, first = (
            cls.make(SHAPES[name], layout=layout, stride=2, padding=1, groups=groups) for layout in cls.layouts
        )
        image, *weights = _wide(random(last))
        moved = [np.moveaxis(image, 3, 1)]
        if weights:
            moved.append(np.transpose(weights[0], (3, 2, 0, 1)) if "f" in cls.dims else np.moveaxis(weights[0], 2, 0))
        assert np.allclose(first.reference(moved), np.moveaxis(last.reference([image, *weights]), 3, 1), rtol=1e-12)


@pytest.mark.parametrize("mask", ["no", "yes"])
@pytest.mark.parametrize("queries", [1, 3, 6])
def test_causal_attention_is_its_definition_and_counts_what_is_seen(queries, mask):
    attention = OPERATIONS["attention"].make((2, queries, 4, 5, 6), mask=mask, causal="yes")
    operands = _wide(random(attention))
    assert np.allclose(attention.reference(operands), seen_by(attention, operands), rtol=1e-12)
    assert attention.flops() == 2 * 2 * (4 + 5) * sum(6 - queries + i + 1 for i in range(queries))
    assert np.isfinite(attention.error(operands)).all()
    assert verdicts(attention, partial(seen_by, attention)) == {"within bound"}
    from_the_first_key = verdicts(attention, partial(seen_by, attention, more=queries - 6))
    assert from_the_first_key == {"within bound" if queries == 6 else "different"}


def test_more_queries_than_keys_are_no_causal_attention():
    attention = OPERATIONS["attention"]
    assert attention.make((1, 7, 4, 5, 6), causal="no").illegal("llvm-cpu") is None
    assert "see no key" in attention.make((1, 7, 4, 5, 6), causal="yes").illegal("llvm-cpu")


def test_the_page_of_operations_is_current():
    """`doit docs` writes it."""
    assert (REPOSITORY / "docs/operations.md").read_text() == page()


# --- planted errors: each is a result that a wrong program might give


def shifted(image: Any, operation: Operation) -> Any:
    return np.roll(image, 1, axis=operation.layout.index("h"))


def without_last(array: Any, axis: int, value: Any = 0) -> Any:
    changed = array.copy()
    changed[(slice(None),) * axis + (-1,)] = value
    return changed


def padded_before(operation: Operation, operands: Any) -> Any:
    """Zeros around the image, where its zero point should be."""
    p = operation.option("padding")
    image = np.pad(operands[0], [(0, 0) if letter in "nc" else (p, p) for letter in operation.layout[:4]])
    sizes = [size + 2 * p * (dim in "hw") for dim, size in zip(operation.dims, operation.sizes, strict=True)]
    return replace(other(operation, padding=0), sizes=tuple(sizes)).reference([image, operands[1]])


def without_group(result: Any, operation: Operation) -> Any:
    """The results of the last group are nothing."""
    axis, found = operation.layout.index("c"), result.copy()
    found[(slice(None),) * axis + (slice(-(operation.size("f") // operation.groups), None),)] = 0
    return found


def shuffled(image: Any, axis: int, groups: int) -> Any:
    """Channels counted group by group as if they were counted across groups."""
    order = np.arange(image.shape[axis]).reshape(-1, groups).T.ravel()
    return np.take(image, order, axis)


def seen_by(operation: Operation, operands: Any, more: int = 0) -> Any:
    """The definition of causal attention, query by query, where each sees so many keys more; at least one."""
    queries, keys, values, *masks = operands
    found = np.zeros(operation.result().shape)
    for b, i in np.ndindex(*found.shape[:2]):
        count = max(1, keys.shape[1] - queries.shape[1] + i + 1 + more)
        scores = operation._scale * keys[b, :count] @ queries[b, i]
        scores = scores + masks[0][b, i, :count] if masks else scores
        powers = np.exp(scores - scores.max())
        found[b, i] = powers / powers.sum() @ values[b, :count]
    return found


def unfused(operation: Operation, operands: list[Any]) -> Any:
    """The sums that the epilogue is applied to."""
    return other(operation, epilogue="none").reference(operands[:-1])


def along_the_other_axis(operation: Operation, operands: list[Any]) -> Any:
    """A bias or a scale of the rows."""
    if operation.epilogue == "residual" or not operation.parameters():
        return None
    total, axis = unfused(operation, operands), operation.channel_axis
    turned = np.moveaxis(total, axis - 1 if axis > 1 or total.ndim == 2 else axis + 1, axis)
    parameter = np.resize(operands[-1], turned.shape[axis])
    turned = turned + parameter.reshape([-1 if i == axis else 1 for i in range(total.ndim)])
    return np.moveaxis(turned, axis, axis - 1 if axis > 1 or total.ndim == 2 else axis + 1)


def before_the_bias(operation: Operation, operands: list[Any]) -> Any:
    kind = operation.epilogue.partition("+")[2]
    if not kind:
        return None
    plain = other(operation, epilogue="bias")
    return plain.applied(function(kind)(unfused(operation, operands)), operands)


def without_slice(array: Any, operation: Operation) -> Any:
    """The last slice of k is nothing."""
    axis, changed = operation.operands()[0].summed[0], array.copy()
    size = operation.sizes[2] // operation.option("slices")
    changed[(slice(None),) * axis + (slice(-size, None),)] = 0
    return changed


EPILOGUES = {
    "no epilogue": lambda o, a: unfused(o, a) if o.parameters() else None,
    "along the other axis": along_the_other_axis,
    "the next column's": lambda o, a: o.reference([*a[:-1], np.roll(a[-1], 1, -1)]) if o.parameters() else None,
    "the function before the bias": before_the_bias,
    "the function left out": lambda o, a: other(o, epilogue="bias").reference(a) if "+" in o.epilogue else None,
    "added instead of multiplied": lambda o, a: (
        other(o, epilogue="bias").reference(a) if o.epilogue == "scale" else None
    ),
    "saturated": lambda o, a: (
        np.clip(o.reference(a), -(2**o.types.result.digits), 2**o.types.result.digits - 1)
        if o.epilogue == "cast" and not o.types.result.is_float
        else None
    ),
}
CONTRACTION = {
    "the first operand twice": lambda o, a: o.reference([a[0], a[0], *a[2:]]) if a[0].shape == a[1].shape else None,
    "a transposed operand": lambda o, a: (
        o.reference([a[0].swapaxes(-1, -2), *a[1:]]) if a[0].ndim > 1 else o.reference([a[0], a[1].T, *a[2:]])
    ),
    "a dropped term": lambda o, a: o.reference([without_last(a[0], o.operands()[0].summed[0]), *a[1:]]),
    "nothing accumulated": lambda o, a: (
        other(o, accumulate="no").reference([*a[:2], *a[3:]]) if o.option("accumulate") == "yes" else None
    ),
    "another batch": lambda o, a: o.reference([np.roll(a[0], 1, axis=0), *a[1:]]),
}
WINDOW = {
    "padding off by one": lambda o, a: o.reference([shifted(a[0], o), *a[1:]]),
    "a row left out": lambda o, a: o.reference(
        [without_last(np.flip(a[0], o.layout.index("h")), o.layout.index("h"), -10), *a[1:]]
    ),
    "stride ignored": lambda o, a: (
        other(o, stride=1).reference(a)[tuple(slice(size) for size in o.result().shape)]
        if o.option("stride") > 1 and epilogue_of(o) != "residual"
        else None
    ),
    "dilation ignored": lambda o, a: (
        replace(other(o, dilation=1)).reference(a)[tuple(slice(size) for size in o.result().shape)]
        if o.option("dilation") > 1 and epilogue_of(o) != "residual"
        else None
    ),
    "image on its side": lambda o, a: o.reference([a[0].swapaxes(*(o.layout.index(d) for d in "hw")), *a[1:]]),
}
CONVOLUTION = {
    **WINDOW,
    "the window turned": lambda o, a: o.reference(
        [a[0], np.flip(a[1], [o.layout.split("_")[1].index(d) for d in "hw"]), *a[2:]]
    ),
    "a dropped term": lambda o, a: o.reference([a[0], a[1] * (np.arange(a[1].size) != 0).reshape(a[1].shape), *a[2:]]),
}
ZERO_POINTS = {
    "zero points swapped": lambda o, a: other(
        o, input_zp=o.option("weight_zp"), weight_zp=o.option("input_zp")
    ).reference(a),
    "no zero point of the first operand": lambda o, a: other(o, input_zp=0).reference(a),
    "no zero point of the second operand": lambda o, a: other(o, weight_zp=0).reference(a),
    "another zero point": lambda o, a: other(o, weight_zp=o.option("weight_zp") + 1).reference(a),
    "a zero point of the other sign": lambda o, a: other(o, input_zp=-1 - o.option("input_zp")).reference(a),
    "no product of zero points": lambda o, a: o.reference(a) - o.option("input_zp") * o.option("weight_zp") * o.terms,
}
PLANTED: dict[str, dict[str, Callable[..., Any]]] = {
    "matmul": {**CONTRACTION, **EPILOGUES},
    "batch_matmul": {**CONTRACTION, **EPILOGUES},
    "matmul_splitk": {
        **dict(list(CONTRACTION.items())[:3]),
        "a slice left out": lambda o, a: o.reference([without_slice(a[0], o), a[1]]),
        "slices that do not belong together": lambda o, a: o.reference(
            [np.roll(a[0], o.sizes[2] // o.option("slices"), o.operands()[0].summed[0]), a[1]]
        ),
    },
    "chain": {
        "the first product left out": lambda o, a: a[0] @ a[2],
        "the first product turned": lambda o, a: o.reference([a[1], a[0], a[2]]),
        "a dropped term of the first": lambda o, a: o.reference([without_last(a[0], 1), *a[1:]]),
        "a dropped term of the second": lambda o, a: o.reference([*a[:2], without_last(a[2], 0)]),
        "the first product twice": lambda o, a: a[0] @ a[1] @ a[1] @ a[2],
    },
    **{name: dict(list(CONTRACTION.items())[1:]) for name in ("matvec", "vecmat")},  # of different shapes
    "conv2d": {
        **CONVOLUTION,
        **EPILOGUES,
        "other channels": lambda o, a: o.reference([np.roll(a[0], 1, axis=o.layout.index("c")), *a[1:]]),
        "a dropped group": lambda o, a: without_group(o.reference(a), o) if o.groups > 1 else None,
        "another group": lambda o, a: o.reference(
            [np.roll(a[0], o.size("c") // o.groups, axis=o.layout.index("c")), *a[1:]]
        ),
        "groups inside of channels": lambda o, a: (
            o.reference([shuffled(a[0], o.layout.index("c"), o.groups), *a[1:]]) if o.groups > 1 else None
        ),
    },
    "depthwise_conv2d": CONVOLUTION,
    "quantized_matmul": {**CONTRACTION, **ZERO_POINTS},
    "quantized_conv2d": {
        **CONVOLUTION,
        **ZERO_POINTS,
        "padded with 0": lambda o, a: padded_before(o, a) if o.option("padding") else None,
    },
    "pooling": {
        **WINDOW,
        "padding that counts": lambda o, a: (
            np.maximum(other(o, kind="max").reference(a), 0) if o.option("kind") == "max" else o.reference(a) + 1
        ),
        "the other kind": lambda o, a: other(o, kind="sum" if o.option("kind") == "max" else "max").reference(a),
    },
    "reduction": {
        "the other axis": lambda o, a: o.reference([a[0].T]) if o.option("axis") != "all" else None,
        "a dropped term": lambda o, a: o.reference([without_last(without_last(a[0], 0, -10), 1, -10)]),
        "the other kind": lambda o, a: other(o, kind="sum" if o.option("kind") == "max" else "max").reference(a),
    },
    "softmax": {
        "the other axis": lambda o, a: o.reference([a[0].T]).T,
        "a dropped term": lambda o, a: o.reference([without_last(a[0], 1, -100)]),
        "not divided": lambda o, a: np.exp(a[0] - a[0].max(axis=1, keepdims=True)),
    },
    "norm": {
        "the other axis": lambda o, a: o.reference([a[0].T, *a[1:]]).T,
        "divided by one less": lambda o, a: (
            o.reference([a[0], a[1] * (1 - 1 / o.sizes[1]) ** 0.5, *a[2:]])
        ),
        "no scale": lambda o, a: o.reference([a[0], np.ones_like(a[1]), *a[2:]]),
        "no shift": lambda o, a: o.reference([*a[:2], 0 * a[2]]) if len(a) > 2 else None,
        "the other kind": lambda o, a: other(o, kind="rms" if o.option("kind") == "layer" else "layer").reference(
            [a[0], a[1], a[-1]]
        ),
    },
    "attention": {
        "keys for queries": lambda o, a: o.reference([a[1], a[0], a[2], *[m.swapaxes(1, 2) for m in a[3:]]]),
        "transposed values": lambda o, a: o.reference([*a[:2], a[2].swapaxes(1, 2), *a[3:]]),
        "a dropped key": lambda o, a: o.reference([a[0], without_last(a[1], 1), without_last(a[2], 1), *a[3:]]),
        "no mask": lambda o, a: other(o, mask="no").reference(a[:3]) if len(a) > 3 else None,
        "causal ignored": lambda o, a: other(o, causal="no").reference(a) if o.option("causal") == "yes" else None,
        "causal off by one": lambda o, a: seen_by(o, a, -1) if o.option("causal") == "yes" else None,
        "causal by one too many": lambda o, a: seen_by(o, a, 1) if o.option("causal") == "yes" else None,
        "no scale": lambda o, a: o.reference([a[0] / o._scale, *a[1:]]),
        "another batch": lambda o, a: o.reference([np.roll(a[0], 1, axis=0), *a[1:]]),
    },
    "transpose": {"not transposed": lambda o, a: a[0], "rows turned": lambda o, a: a[0].T[::-1]},
    "elementwise": {
        "another kind": lambda o, a: (
            other(o, kind="mul" if o.option("kind") != "mul" else "add").reference(a)
            if len(a) > 1
            else other(o, kind="relu" if o.option("kind") != "relu" else "tanh").reference(a)
        ),
        "operands swapped": lambda o, a: o.reference(a[::-1]) if o.option("kind") == "sub" else None,
        "gelu by tanh": lambda o, a: (
            0.5 * a[0] * (1 + np.tanh((2 / np.pi) ** 0.5 * (a[0] + 0.044715 * a[0] ** 3)))
            if o.option("kind") == "gelu" and o.signature.result.mlir == "f32"
            else None
        ),
        "one element left out": lambda o, a: without_last(o.reference(a), 0),
    },
}  # fmt: skip


@pytest.mark.parametrize(("name", "error"), [(name, error) for name in PLANTED for error in PLANTED[name]])
def test_a_planted_error_is_told_in_all_types_layouts_and_options(name, error):
    told = 0
    for operation in BY_NAME[name]:
        wrong = partial(PLANTED[name][error], operation)
        operands = _wide(random(operation))
        result = wrong(operands)
        if result is None or np.allclose(result, operation.reference(operands), rtol=1e-9):
            continue  # here it is no error: nothing accumulated, or one row of zeros for another
        assert "different" in verdicts(operation, wrong), operation.shape_name
        told += 1
    assert told


@EACH
def test_a_right_result_is_not_called_wrong(name):
    for operation in BY_NAME[name]:
        assert "different" not in verdicts(operation, operation.reference), operation.shape_name


@pytest.mark.parametrize(("window", "why"), [(45, None), (46, "only 2048 of 2116 terms fit exactly into f16")])
def test_a_sum_that_cannot_be_thinned_out_is_exact_as_long_as_it_can_be(window, why):
    operation = OPERATIONS["pooling"].make((1, window, window, 1, window, window), "f16", kind="sum")
    assert mistrust(operation) == why
