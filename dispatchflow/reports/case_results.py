"""Format the results of a case as a table, for `doit show`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dispatchflow.reports.table import aligned
from dispatchflow.verification.call_result import CallResult

if TYPE_CHECKING:
    from dispatchflow.operations.api import Array

_COLUMNS = ("result", "type", "finite", "zeros", "min", "max", "mean", "first values")
_RIGHT = (True, False, True, True, True, True, True, False)
_FIRST = 6


def table(results: Sequence[CallResult]) -> str:
    """Return a table with the type, statistics and first values of each result of a case.

    `min`, `max` and `mean` are those of the finite elements. If the element type of a result is unknown, the
    line of this result has only the first bytes."""
    lines = [_COLUMNS, *((str(index), each.type, *_cells(each)) for index, each in enumerate(results))]
    return aligned(lines, _RIGHT)


def _cells(given: CallResult) -> tuple[str, ...]:
    if given.array is None:
        return *_none(5), "the runtime has no numbers of this type"
    if given.is_bytes:
        return *_none(5), f"bytes {given.array[: 2 * _FIRST].tobytes().hex(' ')}"
    flat = _wide(given.array.reshape(-1))
    first = " ".join(map(_number, flat[:_FIRST])) + (" …" if flat.size > _FIRST else "")
    known = flat[np.isfinite(flat)]
    zeros = int(np.count_nonzero(flat == 0))
    if not known.size:
        return str(known.size), str(zeros), *_none(3), first
    limits = (_number(known.min()), _number(known.max()), _number(known.mean(dtype=np.float64)))
    return f"{known.size}{'' if known.size == flat.size else f' of {flat.size}'}", str(zeros), *limits, first


def _none(count: int) -> tuple[str, ...]:
    return ("",) * count


def _wide(flat: Array) -> Array:
    # numpy cannot compute with ml_dtypes' floats; f32 has all their values.
    return flat if flat.dtype.kind in "biuf" else flat.astype(np.float32)


def _number(value: np.generic) -> str:
    return f"{value:.6g}" if isinstance(value, np.floating) else str(int(value))
