"""The operands and results of a program's sites are read from the values that `df_capture` returns.

`df_capture` is a function that is added to the program. It returns the contents of all slots; a slot is a global that
stores one value or size."""

from __future__ import annotations

import json

import msgspec
import pytest

from dispatchflow.models import _capturer, _script, captured
from dispatchflow.models.captured import (
    Capture,
    Capturing,
    Dispatch,
    Missing,
    Tensor,
    Value,
    capture,
    spelt,
    with_fills,
)
from dispatchflow.tools import bindings

MADE = Capturing(
    ("!hal.buffer_view",),
    ("i64", "!hal.buffer_view", "i64", "i64", "i64", "i64"),
    (
        Dispatch(4, 0, (Value("in0", "tensor<?x8xf32>", 1, (2,)), Value("in1", "index", 2), Value("in2", "i32", 3))),
        Dispatch(7, 5, (Value("out0", "tensor<4xf32>", None, (), "why not"),)),
    ),
)
SLOTS = [number.to_bytes(8, "little", signed=True) for number in (1, 0, 2, -3 & 0xFFFFFFFF, 0, 3)]
SLOTS[1] = bytes(range(64))


def read(slot: int) -> bytes:
    return SLOTS[slot]


def test_tensors_have_their_sizes_and_numbers_the_bytes_of_their_types():
    found, contents = capture(MADE, {4: 1, 7: 2}, read)
    assert [(tensor.name, tensor.type) for tensor in found.tensors] == [
        ("1.in0", "2x8xf32"), ("1.in1", "index"), ("1.in2", "i32"),
    ]  # fmt: skip
    assert contents == {"1.in0": bytes(range(64)), "1.in1": SLOTS[2], "1.in2": (-3).to_bytes(4, "little", signed=True)}
    assert found.nbytes == 64 + 8 + 4
    assert found.executions == {"1": 1, "2": 3}
    assert found.missing == (Missing(2, "out0", "why not"),)


def test_an_execution_that_does_not_exist_has_a_reason():
    found, contents = capture(MADE, {4: 1, 7: 2, 9: 3}, read, execution=2)
    assert not contents
    assert [(each.site, each.value) for each in found.missing] == [(1, None), (2, "out0"), (3, None)]
    assert found.missing[0].reason == "it is executed once in this call; execution=2 does not exist"
    assert found.missing[2].reason == captured.GONE
    idle, _ = capture(MADE, {4: 1, 7: 2}, lambda slot: bytes(8))
    assert {each.reason for each in idle.missing} == {"it is not executed in this call"}


def test_elements_that_follow_the_fill_are_undefined():
    tensors = [Tensor(1, name, "2x2xf32", 16) for name in ("in0", "in1")] + [Tensor(1, "in2", "tensor<f32>", 4)]
    one = {"1.in0": bytes(16), "1.in1": bytes(16), "1.in2": bytes(4)}
    other = one | {"1.in1": bytes(4) + b"\0\0\x80\x3f" + bytes(8), "1.in2": b"\0\0\x80\x3f"}
    found, masks = with_fills(Capture(tuple(tensors)), one, other)
    assert masks == {"1.in1.undefined": bytes((0, 1, 0, 0)), "1.in2.undefined": bytes((1,))}
    assert [tensor.undefined for tensor in found.tensors] == [False, True, True]


def test_elements_narrower_than_a_byte_have_a_mask_of_bytes_and_other_sizes_are_left_out():
    tensors = (Tensor(1, "in0", "4xi4", 2), Tensor(1, "in1", "4xi8", 4))
    found, masks = with_fills(Capture(tensors), {"1.in0": b"\0\0", "1.in1": bytes(4)}, {"1.in0": b"\0\1"})
    assert masks == {"1.in0.undefined": b"\0\1"}
    assert found.missing == (Missing(1, "in1", "its size depends on undefined elements"),)


@pytest.mark.parametrize(
    ("type_", "sizes", "expected"),
    [
        ("tensor<4x8xf32>", [], "4x8xf32"),
        ("tensor<?x8x?xbf16>", [3, 5], "3x8x5xbf16"),
        ("tensor<2x?xcomplex<f32>>", [3], "2x3xcomplex<f32>"),
        ("tensor<2xindex>", [], "2xindex"),
        ("tensor<f32>", [], "tensor<f32>"),
        ("index", [], "index"),
    ],
)
def test_a_type_is_spelt_with_its_sizes(type_: str, sizes: list[int], expected: str) -> None:
    assert spelt(type_, sizes) == expected


def test_the_size_of_a_capture_is_that_of_its_static_tensors():
    assert MADE.nbytes() == 0  # one is dynamic, one is not captured
    static = Capturing((), (), (Dispatch(0, 0, (Value("in0", "tensor<4x8xf16>", 1), Value("in1", "i32", 2))),))
    assert static.nbytes() == 64


def test_a_capture_survives_json():
    found, _ = capture(MADE, {4: 1, 7: 2}, read)
    assert msgspec.convert(json.loads(json.dumps(msgspec.to_builtins(found))), Capture) == found


def test_the_script_and_its_reader_agree():
    assert (_script.NO_BINDINGS, _capturer.FUNCTION) == (bindings.NO_BINDINGS, captured.FUNCTION)
