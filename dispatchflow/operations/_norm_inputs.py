"""Make the rows of the inputs that `norm.Norm.made` returns.

Comments in `norm.Norm.made` describe the recipes (ways to make inputs) of `norm`. The array `raw`, [m, n], has a
random 64-bit integer for each element of the operand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dispatchflow.operations._random import below, full, stream

if TYPE_CHECKING:
    from dispatchflow.mlir.types import Signature
    from dispatchflow.operations.api import Array


_BLOCK = 64
"""The number of neighboring elements in a block of the recipe `mixed`.

The last block also takes the rest of the row: a row of 200 elements has blocks of 64, 64 and 72 elements. A row of
fewer than 128 elements is a single block."""


def balanced(raw: Array, recipe: str, layer: bool, types: Signature) -> Array:
    """Return rows of numbers with a sum near 0, such as [1, -1, 2, -2], in the shape of `raw`.

    `recipe` (`counted` or `mixed`) is a way to make inputs for verification. `layer` is false for RMS
    normalization."""
    # A row adds up to 0 or -1. In `mixed`, each block (see `_BLOCK`) but the last adds up to 0.
    # In `mixed`, the running mean is therefore near 0, and a kernel that updates a mean for each element adds squares
    # that are nearly exact. With other running means, the squares would have few values, whose roundings add up. In
    # `counted`, parts of a row have different means: a kernel must not merge their variances as if the means were
    # equal.
    m, n = raw.shape
    # A single element cannot cancel: it is a negative random number, or 2 for `layer` (see `_blocks`).
    if n == 1 and not layer:
        return -abs(full(stream(0, 3, m), types.operands[0].digits))[:, None]
    larger = None
    if recipe == "counted" and n >= 8:
        digits = (types.accumulator.digits + 1 - n.bit_length()) // 2
        larger = abs(full(stream(0, 3, 2 * m), digits)).reshape(2, m, 1, 1)
    whole = max(n // _BLOCK - 1, 0) * _BLOCK if recipe == "mixed" else 0
    first = _blocks(raw[:, :whole].reshape(m, -1, _BLOCK), recipe, layer)
    last = _blocks(raw[:, whole:].reshape(m, 1, -1), recipe, layer, larger)
    return np.concatenate([first.reshape(m, -1), last.reshape(m, -1)], axis=1)


def _blocks(raw: Array, recipe: str, layer: bool, larger: Array | None = None) -> Array:
    """Return blocks of numbers with a sum near 0, such as [1, -2, 2, -1].

    Here `raw` and the result have the shape [rows, blocks, elements of a block]."""
    size = raw.shape[2]
    # A block adds up to 0, or to -1 if its size is odd and `layer` is false. Exception: [2] for `layer` and size 1.
    order, negative = raw.argsort(axis=2), size // 2 + size % 2
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(size)[None, None], axis=2)
    x = np.where(rank < negative, -1.0, 1.0)
    # `larger` has two factors for each row. Each factor multiplies one 1 and one -1 of each block.
    for i, factor in enumerate(() if larger is None else larger):
        x = np.where((rank == i) | (rank == negative + i), x * factor, x)
    if layer and size % 2:
        x[rank == size - 1] = 2.0
    if recipe == "mixed":
        # Blocks have different numbers of large elements, so that their sums of squares differ.
        count = size // 8 + below(raw[:, :, :1], size // 4 + 1)
        x[(rank < count) | ((rank >= negative) & (rank < negative + count))] *= 2
    return x


def shifted(raw: Array, types: Signature) -> Array:
    """Return rows of ones in which two elements are replaced by 1 + d and 1 - d.

    d is a power of two that depends on n, the number of columns, and on the types. Every fourth row has only ones."""
    m, n = raw.shape
    digits = (types.accumulator.digits + 6 - n.bit_length()) // 2
    x = np.ones((m, n))
    if n > 1:
        away = 2.0 ** -min(digits, types.operands[0].digits - 1)
        x[np.arange(m)[:, None], _late(raw)[:, :2]] += [away, -away]
        x[3::4] = 1.0
    return x


def few_terms(few: Array, raw: Array, terms: int, layer: bool, types: Signature) -> Array:
    """Return one row for each True in the mask `few`; a row has only `terms` nonzero elements.

    The mask has one element for each row of the operand."""
    m, n = raw.shape
    count, less = (7, 128) if layer else (3, 1024)
    first, third, *small = full(stream(0, 3, count * m), types.operands[0].digits).reshape(count, m)[:, few]
    values = np.stack([first, -first, third / 2, *(each / less for each in small)], axis=1)
    chosen = raw[few].argsort(axis=1)[:, :terms]
    if layer and n >= 64:
        end = _end(n)
        chosen[:, :3] = _late(raw[few])[:, :3]
        chosen[:, 3:] = chosen[:, 3:] * (n - end) // n
    x = np.zeros((len(chosen), n))
    x[np.arange(len(chosen))[:, None], chosen] = values[:, :terms]
    return x


def _late(raw: Array) -> Array:
    """Return the indices of the last `_end(n)` columns, in a random order for each row.

    n is the number of columns of `raw`. The random numbers in `raw` decide the order."""
    n = raw.shape[1]
    columns: Array = n - _end(n) + raw[:, -_end(n) :].argsort(axis=1)
    return columns


def _end(n: int) -> int:
    """Return how many of a row's last elements may be outliers: 32 in a row of 8192 elements."""
    # A correct kernel that updates a sum of squares at each column adds up many rounding errors after an
    # outlier (an element far from the mean). Few columns may therefore follow.
    return min(max(n // 256, 16), n)
