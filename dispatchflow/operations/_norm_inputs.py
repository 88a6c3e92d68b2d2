"""Make the rows of two recipes of `norm`: `shifted`, and `few`, whose rows have few nonzero elements.

A recipe is a way to make inputs that show certain errors; comments in `norm.Norm.made` describe these two. `raw` is an
array [m, n] with a random 64-bit integer for each element of the operand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dispatchflow.operations._random import full, stream

if TYPE_CHECKING:
    from dispatchflow.mlir.types import Signature
    from dispatchflow.operations.api import Array


def shifted(raw: Array, types: Signature) -> Array:
    """Return rows of ones in which two elements are replaced by 1 + d and 1 - d.

    d is a power of two that depends on n, the number of columns, and on the types. Such a row has the variance 2 · d² /
    n. Every fourth row is left unchanged: it has only ones."""
    m, n = raw.shape
    digits = (types.accumulator.digits + 6 - n.bit_length()) // 2
    x = np.ones((m, n))
    if n > 1:
        away = 2.0 ** -min(digits, types.operands[0].digits - 1)
        x[np.arange(m)[:, None], _late(raw)[:, :2]] += [away, -away]
        x[3::4] = 1.0
    return x


def few_terms(few: Array, raw: Array, places: Array, terms: int, layer: bool, types: Signature) -> Array:
    """Return one row for each True in the mask `few`; a row has only `terms` nonzero elements.

    The mask has one element for each row of the operand."""
    m, n = raw.shape
    count, less = (7, 128) if layer else (3, 1024)
    first, third, *small = full(stream(0, 3, count * m), types.operands[0].digits).reshape(count, m)[:, few]
    values = np.stack([first, -first, third / 2, *(each / less for each in small)], axis=1)
    chosen = places[few, :terms]
    if layer and n >= 64:
        end = _end(n)
        chosen[:, :3] = _late(raw[few])[:, :3]
        chosen[:, 3:] = chosen[:, 3:] * (n - end) // n
    x = np.zeros((len(chosen), n))
    x[np.arange(len(chosen))[:, None], chosen] = values[:, :terms]
    return x


def _late(raw: Array) -> Array:
    """Return, for each row of `raw`, the indices of the last `_end(n)` columns in a random order.

    n is the number of columns."""
    n = raw.shape[1]
    columns: Array = n - _end(n) + raw[:, -_end(n) :].argsort(axis=1)
    return columns


def _end(n: int) -> int:
    """Return how many columns, at the end of a row, are for the elements that are farthest from the mean.

    n is the number of all columns. These elements are near the end, because a correct kernel that updates a running
    mean loses some digits of the variance in each column after such an element."""
    return min(max(n // 256, 16), n)
