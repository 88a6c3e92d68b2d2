"""The flops of operations equal counts by hand, and their traffic equals the sizes of the arrays.

Pixels that no window reads do not count as traffic."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from support.product import chosen_of, operation_of
from support.variants import SHAPES, variants

from dispatchflow.operations import OPERATIONS, Operation
from dispatchflow.operations._window import Window
from dispatchflow.verification.inputs import made, stored
from dispatchflow.verification.reference import bounds, expected

# operation → (sizes, flops with default options, {(option, value): flops} if the value changes them)
COUNTED: dict[str, tuple[tuple[int, ...], int, dict[tuple[str, str | int], int]]] = {
    # Two flops for each of 3·5·7 terms; an epilogue adds its flops for each of 3·5 sums.
    "matmul": (
        (3, 5, 7),
        210,
        {
            ("epilogue", "bias"): 210 + 15,
            ("epilogue", "bias+relu"): 210 + 15 + 15,
            ("epilogue", "bias+gelu"): 210 + 15 + 5 * 15,  # x/√2, erf, 1 +, x/2, ·
            ("epilogue", "residual"): 210 + 15,
            ("epilogue", "scale"): 210 + 15,
        },
    ),
    "batch_matmul": (
        (2, 3, 5, 7),
        420,
        {
            ("epilogue", "bias"): 450,
            ("epilogue", "bias+relu"): 480,
            ("epilogue", "bias+gelu"): 600,
            ("epilogue", "residual"): 450,
            ("epilogue", "scale"): 450,
        },
    ),
    "matmul_splitk": ((3, 5, 12), 360, {}),
    "quantized_matmul": ((3, 5, 7), 210, {}),
    "matvec": ((3, 7), 42, {}),
    "vecmat": ((5, 7), 70, {}),
    # m, n, k, l: 3 by 11 sums of 7 terms, then 3 by 5 of 11.
    "chain": ((3, 5, 7, 11), 2 * 3 * 11 * 7 + 2 * 3 * 5 * 11, {}),
    # b, m, n, k1, k2: 3 by 11 scores of 7 terms, 3 by 5 results of 11; causal queries see 9, 10 and 11 keys.
    "attention": ((2, 3, 5, 7, 11), 924 + 660, {("causal", "yes"): 2 * (9 + 10 + 11) * 2 * (7 + 5)}),
    # The result has 2 images of 5 by 5 pixels and 6 channels; each element sums 60 terms.
    # Its images are 3 by 3 with stride 2, 3 by 1 with dilation 2, and 7 by 7 with padding 1.
    "conv2d": (
        (2, 7, 9, 4, 6, 3, 5),
        300 * 120,
        {
            ("stride", 2): 108 * 120,
            ("dilation", 2): 36 * 120,
            ("padding", 1): 588 * 120,
            ("groups", 2): 300 * 60,
            ("epilogue", "bias"): 36_300,
            ("epilogue", "bias+relu"): 36_600,
            ("epilogue", "bias+gelu"): 37_800,
            ("epilogue", "residual"): 36_300,
            ("epilogue", "scale"): 36_300,
        },
    ),
    "quantized_conv2d": (
        (2, 7, 9, 4, 6, 3, 5),
        300 * 120,
        {("stride", 2): 108 * 120, ("dilation", 2): 36 * 120, ("padding", 1): 588 * 120},
    ),
    # The result has 2 images of 5 by 5 pixels and 4 channels; each element sums 15 terms.
    "depthwise_conv2d": (
        (2, 7, 9, 4, 3, 5),
        200 * 30,
        {("stride", 2): 72 * 30, ("dilation", 2): 24 * 30, ("padding", 1): 392 * 30},
    ),
    "pooling": (
        (2, 7, 9, 4, 3, 5),
        200 * 15,
        {("stride", 2): 72 * 15, ("dilation", 2): 24 * 15, ("padding", 1): 392 * 15},
    ),
    "softmax": ((3, 5), 75, {}),  # largest, difference, exponential, sum, quotient
    "norm": ((3, 5), 120, {("kind", "rms"): 60}),  # layer: Σ, x-mean, ², Σ, x-mean, /σ, ·, +; rms: ², Σ, /σ, ·
    "elementwise": (
        (3, 5),
        15,
        {("kind", "sigmoid"): 60, ("kind", "silu"): 60, ("kind", "gelu"): 75},  # -x, exp, 1 +, /
    ),
    "reduction": ((3, 5), 15, {}),
    "transpose": ((3, 5), 0, {}),
}


def changed(operation: Operation) -> list[tuple[str, str | int]]:
    options = zip(operation.options.items(), operation.chosen, strict=True)
    return [(word, value) for (word, option), value in options if value != option.default]


@pytest.mark.parametrize("cls", [OPERATIONS[name] for name in COUNTED], ids=lambda cls: cls.name)
def test_flops_are_what_a_hand_counts_whatever_the_types_and_the_layout(cls):
    sizes, usual, others = COUNTED[cls.name]
    seen = set()
    for word, layout, chosen in product(cls.signatures, cls.layouts, chosen_of(cls)):
        operation = operation_of(cls, sizes, word, layout, chosen)
        if operation.illegal("llvm-cpu") is None:
            (option,) = changed(operation) or [("", "")]
            assert operation.flops() == others.get(option, usual), operation.label
            seen.add(option)
    assert seen >= set(others)


@pytest.mark.parametrize("cls", OPERATIONS.values(), ids=lambda cls: cls.name)
def test_operations_other_than_data_movement_have_a_flop_for_each_element(cls):
    # This test also covers operations that `COUNTED` omits. A formula must not forget a dim.
    sizes = SHAPES.get(cls.name, (8,) * len(cls.dims))
    operation = cls.make(sizes)
    largest = max(tensor.size for tensor in (*(operand.type for operand in operation.operands()), operation.result()))
    assert operation.flops() >= largest or (operation.flops() == 0 and operation.bitwise)
    larger = cls.make([2 * size for size in sizes])
    assert larger.flops() >= 2 * operation.flops()


@pytest.mark.parametrize("cls", OPERATIONS.values(), ids=lambda cls: cls.name)
def test_traffic_is_the_bytes_of_the_arrays(cls):
    for operation in variants(cls):
        operands = made(operation, operation.recipes[-1])
        bitwise = operation.recipes[-1] == "exact" or operation.bitwise
        result = expected(operation, operands) if bitwise else bounds(operation, operands)[0]
        bytes_of_result = result.size * operation.types.result.bits // 8
        unseen = unseen_pixels(operation) if isinstance(operation, Window) else 0
        unseen *= operation.types.operands[0].bits // 8
        assert operation.traffic_bytes() == sum(len(stored(array)) for array in operands) + bytes_of_result - unseen, (
            operation.label
        )


def unseen_pixels(operation: Window) -> int:
    stride, dilation, padding = (operation.option(word) for word in ("stride", "dilation", "padding"))
    n, h, w, c, kh, kw = map(operation.size, ("n", "h", "w", "c", "kh", "kw"))
    seen = np.zeros((h, w), bool)
    for oh, ow, i, j in product(*map(range, (*operation.outputs, kh, kw))):
        row, column = oh * stride + i * dilation - padding, ow * stride + j * dilation - padding
        if 0 <= row < h and 0 <= column < w:
            seen[row, column] = True
    return n * c * int((~seen).sum())


SKIPPING = [
    (sides, window, stride, dilation, padding)
    for sides in ((7, 9), (1, 6))
    for window in ((1, 1), (3, 1), (2, 3))
    for stride in (1, 2, 3, 4, 16)
    for dilation in (1, 2, 3)
    for padding in (0, 1, 2, 15)
]


@pytest.mark.parametrize("name", ["pooling", "conv2d", "depthwise_conv2d", "quantized_conv2d"])
def test_pixels_that_no_window_sees_are_no_traffic(name):
    # Some pixels are skipped if the stride is larger than the window. Counting skipped pixels would make measured rates
    # up to stride² times too high.
    cls, skipped = OPERATIONS[name], set()
    for (h, w), (kh, kw), *options in SKIPPING:
        sizes = {"n": 2, "h": h, "w": w, "c": 3, "f": 4, "kh": kh, "kw": kw}
        chosen = dict(zip(("stride", "dilation", "padding"), options, strict=True))
        operation = cls.make([sizes[dim] for dim in cls.dims], **chosen)
        if operation.illegal("llvm-cpu") is not None:
            continue
        unseen = unseen_pixels(operation) * operation.types.operands[0].bits // 8
        whole = sum(operand.type.nbytes for operand in operation.operands())
        assert operation.read_bytes() == whole - unseen, operation.label
        assert operation.traffic_bytes() == whole - unseen + operation.result().nbytes
        skipped.add(unseen > 0)
    assert skipped == {True, False}


def test_a_strided_window_of_one_pixel_reads_one_of_stride_squared():
    operation = OPERATIONS["pooling"].make((1, 56, 56, 256, 1, 1), stride=2)
    assert operation.read_bytes() == 28 * 28 * 256 * 4
