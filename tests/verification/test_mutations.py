"""Verification detects planted errors of at least the sizes that docs/verification.md states."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import mutations

PAGE = Path(__file__).parent.parent.parent / "docs/verification.md"
ROW = re.compile(
    r"^\| (\w+) \| (\S+->\S+) \| [\dx]+ \| (.+?) \| (.+?) \| ([\d.]+)% \| ([\d.]+)% \| (.+?) \| [\d,]+ \|$",
    re.MULTILINE,
)
ROWS = {(name, types): rest for name, types, *rest in ROW.findall(PAGE.read_text(encoding="utf-8"))}


def power(shown: str) -> float:
    return 0.0 if shown == "none missed" else 2.0 ** int(shown.removeprefix("2^").replace("−", "-"))


def test_the_page_has_a_row_for_each_operation_and_type() -> None:
    assert set(ROWS) == {(one.name, one.types.spelling) for one in mutations.operations([])}


@pytest.mark.parametrize(("name", "types"), [
    ("matmul", "f32,f32->f32"), ("matmul", "f16,f16->f16"), ("depthwise_conv2d", "f32,f32->f32"),
    ("pooling", "f32->f32"), ("quantized_matmul", "i8,i8->i32"),
])  # fmt: skip
def test_errors_above_these_sizes_are_found(name: str, types: str) -> None:
    (operation,) = (one for one in mutations.operations([name]) if one.types.spelling == types)

    found = mutations.row(operation, places=60, seed=7)

    result, term, one, every, digits = ROWS[name, types]
    assert result == "1" or power(found["one result"]) <= power(result)
    assert power(found["one term"]) <= power(term)
    assert float(found["lost or doubled, in one"][:-1]) >= 0.6 * float(one)
    assert float(found["in all"][:-1]) >= 0.6 * float(every)
    assert found["digits"] == digits
