"""What `iree-run-module` prints of results → their types."""

from __future__ import annotations

import re

_TENSOR = re.compile(r"^result\[(\d+)\]: hal\.buffer_view\n((?:\d+x)*)([^=\n]+)=", re.MULTILINE)


def result_types(text: str) -> dict[int, str]:
    """Place of a result → its type, as functions declare it, with the sizes that it has: `12x40xf32`, `tensor<f32>`.
    Not of bare numbers, which have the type that is declared."""
    return {int(m[1]): f"{m[2]}{m[3]}" if m[2] else f"tensor<{m[3]}>" for m in _TENSOR.finditer(text)}
