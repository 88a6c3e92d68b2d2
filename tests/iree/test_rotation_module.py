"""The generated MLIR module calls a function with inputs that are not in a CPU cache.

The tests do not compile this module."""

from __future__ import annotations

from dispatchflow.iree import rotation
from dispatchflow.iree.rotation import Operand, Rotation

HOT = Operand((4, 8), "f32", 128, False)
COLD = Operand((3,), "bf16", 6, True)
NUMBER = Operand(None, "index", 0, False)


def test_copies_fill_twice_the_cache_and_are_at_least_two() -> None:
    assert COLD.stride == 64
    assert rotation.copies([HOT, COLD], 640) == 20
    assert rotation.copies([HOT, COLD], 1) == 2


def test_only_cold_operands_are_replaced() -> None:
    text = rotation.module(Rotation("net", "main", (HOT, COLD, NUMBER), ("4x8xf32", "i32"), 20))

    assert 'util.call @"net.main"(%arg0, %cold1, %arg2) : (!hal.buffer_view, !hal.buffer_view, i64)' in text
    assert "-> (!hal.buffer_view, i32)" in text
    assert "arith.constant 20 : index" in text and "hal.element_type<bf16>" in text
    assert "%cold0" not in text


def test_a_function_without_results_has_no_values() -> None:
    text = rotation.module(Rotation("net", "main", (COLD,), (), 2))

    assert '    util.call @"net.main"(%cold0)' in text and "    util.return\n" in text
