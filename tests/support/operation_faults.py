"""Wrong results of operations, which tests plant to check that verification detects them.

The function `PLANTED[operation][error]` takes the operation and its operands. It returns the wrong result, or None
if the operation cannot have the error with its options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from support.variants import epilogue_of, other

from dispatchflow.operations import Operation
from dispatchflow.operations._functions import function


def shifted(image: Any, operation: Operation) -> Any:
    return np.roll(image, 1, axis=operation.layout.index("h"))


def without_last(array: Any, axis: int, value: Any = 0) -> Any:
    changed = array.copy()
    changed[(slice(None),) * axis + (-1,)] = value
    return changed


def padded_before(operation: Operation, operands: Any) -> Any:
    """Return the result of a quantized convolution that pads its image with 0, not with the zero point."""
    p = operation.option("padding")
    image = np.pad(operands[0], [(0, 0) if letter in "nc" else (p, p) for letter in operation.layout[:4]])
    sizes = [size + 2 * p * (dim in "hw") for dim, size in zip(operation.dims, operation.sizes, strict=True)]
    return replace(other(operation, padding=0), sizes=tuple(sizes)).reference([image, operands[1]])


def without_group(result: Any, operation: Operation) -> Any:
    axis, found = operation.layout.index("c"), result.copy()
    found[(slice(None),) * axis + (slice(-(operation.size("f") // operation.groups), None),)] = 0
    return found


def shuffled(image: Any, axis: int, groups: int) -> Any:
    """Return an image with its channels sorted by i % `groups`, where i is the index of a channel.

    For example, if `groups` is 2, the even channels come before the odd channels.
    A grouped convolution of this image is wrong, because the channels of a group must be successive."""
    order = np.arange(image.shape[axis]).reshape(-1, groups).T.ravel()
    return np.take(image, order, axis)


def seen_by(operation: Operation, operands: Any, more: int = 0) -> Any:
    """Return the result of a causal attention in which each query sees `more` keys too many.

    If `more` is negative, each query sees too few keys, but at least one."""
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
    """Return the operation's result without its epilogue.

    An epilogue, such as `gelu`, is applied to each element of a product."""
    return other(operation, epilogue="none").reference(operands[:-1])


def along_the_other_axis(operation: Operation, operands: list[Any]) -> Any:
    """Return a wrong result: the epilogue's parameter is added along another axis.

    The parameter has one element for each channel. Returns None if the operation has no such parameter."""
    if operation.epilogue == "residual" or not operation.parameters():
        return None
    # The function of the epilogue, such as relu, is not applied.
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
    axis, changed = operation.operands()[0].summed[0], array.copy()
    size = operation.sizes[2] // operation.option("slices")
    changed[(slice(None),) * axis + (slice(-size, None),)] = 0
    return changed


def _added(operation: Operation) -> bool:
    return epilogue_of(operation) == "residual" or getattr(operation, "accumulates", False)


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
        if o.option("stride") > 1 and not _added(o)
        else None
    ),
    "dilation ignored": lambda o, a: (
        replace(other(o, dilation=1)).reference(a)[tuple(slice(size) for size in o.result().shape)]
        if o.option("dilation") > 1 and not _added(o)
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
    **{name: dict(list(CONTRACTION.items())[1:]) for name in ("matvec", "vecmat")},  # their operands differ in shape
    "conv2d": {
        **CONVOLUTION,
        **EPILOGUES,
        "nothing accumulated": CONTRACTION["nothing accumulated"],
        "other channels": lambda o, a: o.reference([np.roll(a[0], 1, axis=o.layout.index("c")), *a[1:]]),
        "a dropped group": lambda o, a: without_group(o.reference(a), o) if o.groups > 1 else None,
        "another group": lambda o, a: o.reference(
            [np.roll(a[0], o.size("c") // o.groups, axis=o.layout.index("c")), *a[1:]]
        ),
        "groups inside of channels": lambda o, a: (
            o.reference([shuffled(a[0], o.layout.index("c"), o.groups), *a[1:]]) if o.groups > 1 else None
        ),
    },
    "scaled_matmul": {
        "the first operand twice": lambda o, a: o.reference([a[0], a[0], *a[2:]]),
        "scales of the other operand": lambda o, a: o.reference([*a[:2], *a[:1:-1]]),
        "the next block's scale": lambda o, a: o.reference([*a[:2], np.roll(a[2], 1, axis=1), a[3]]),
        "no scale": lambda o, a: o.reference([*a[:2], np.ones_like(a[2]), a[3]]),
        "a dropped term": lambda o, a: o.reference([without_last(without_last(a[0], 2), 1), *a[1:]]),
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
