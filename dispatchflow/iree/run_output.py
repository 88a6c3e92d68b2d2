"""Parse the types of a function's results from the output of `iree-run-module`."""

from __future__ import annotations

import re

_TENSOR = re.compile(r"^result\[(\d+)\]: hal\.buffer_view\n((?:\d+x)*)([^=\n]+)=", re.MULTILINE)


def result_types(text: str) -> dict[int, str]:
    """Return a dict from the index of each tensor result to the result's type.

    The types have the actual sizes, as in `12x40xf32`. A tensor of rank 0 has a type such as `tensor<f32>`. Scalar
    results are left out."""
    return {int(m[1]): f"{m[2]}{m[3]}" if m[2] else f"tensor<{m[3]}>" for m in _TENSOR.finditer(text)}
