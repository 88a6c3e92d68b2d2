"""The list of weights in parameter files is read.

If IREE reports that a weight is missing or too small, the message gets a hint that says what to change."""

import io
import struct

from dispatchflow.iree import parameters
from dispatchflow.iree.parameters import Entry, Named

LISTING = """\
//===--------------------------------------------------------------------------------------------------------------===//
// Parameter scope `model` (3 entries, 1088 total bytes)
//===------------+------------------+------------------+-----------------------------------------------------------===//
//         Start |              End |           Length | Key
//---------------+------------------+------------------+--------------------------------------------------------------//
             192 |              704 |              512 | `w`
             144 |              656 |              512 | `w`
             656 |              720 |               64 | `a | b`

//===--------------------------------------------------------------------------------------------------------------===//
// Parameter scope <global> (2 entries, 576 total bytes)
//===------------+------------------+------------------+-----------------------------------------------------------===//
               - |                - |              512 | `w`
"""
"""A list of the weights in parameter files, as IREE 3.13 prints it.

The last weight is a splat, which is one repeated value. It takes no bytes of a file, so it has no start and no end."""


def test_weights_are_listed_by_scope_and_one_that_two_files_have_is_found():
    entries = parameters.listed(LISTING)
    assert entries == [
        Entry("model", "w", 512), Entry("model", "w", 512), Entry("model", "a | b", 64), Entry("", "w", 512)
    ]  # fmt: skip
    assert parameters.twice(entries) == Entry("model", "w", 512)
    assert parameters.twice(entries[1:]) is None
    assert parameters.twice(entries)[:2] == ("model", "w")
    assert (entries[0].spelt, entries[3].spelt) == ("the weight 'w' of the scope 'model'", "the weight 'w'")


def test_a_module_names_its_weights_with_their_types():
    text = """\
  util.global private @w = #flow.parameter.named<"model"::"blk.0 w"> : tensor<8x16xf32>
  util.global private @b = #stream.parameter.named<"b"> : tensor<16xf16>
  util.global private @c = dense<1.0> : tensor<2xf32>
"""
    assert parameters.named(text) == [Named("model", "blk.0 w", "tensor<8x16xf32>"), Named("", "b", "tensor<16xf16>")]


def test_runtime_messages_on_weights_get_a_hint_on_the_spec():
    missing = "NOT_FOUND; no provider registered that handles scopes like '{}'"
    assert parameters.hinted(missing.format("model")).endswith('; give its file: parameters = ["model=weights.irpa"]')
    assert parameters.hinted(missing.format("")).endswith('; give its file: parameters = ["weights.irpa"]')
    assert "no file in parameters has" in parameters.hinted("NOT_FOUND; no parameter found in index with key 'b'")
    small = "OUT_OF_RANGE; parameter `w` range out of bounds (offset=0, length=512, size=256)"
    assert parameters.hinted(small).endswith("the file's weight is smaller than the module's")
    assert parameters.hinted("something else") == "something else"


def test_the_nearest_scopes_and_weights_are_named_if_one_is_missing():
    entries = [Entry("model", f"layer.{i}.weight", 4) for i in range(9)] + [Entry("", "b", 4)]
    scope = "NOT_FOUND; no provider registered that handles scopes like 'modell'"
    assert parameters.given_instead(scope, entries) == "; scopes given: 'model', none"
    key = "NOT_FOUND; no parameter found in index with key 'layer.7.weights'"
    near = parameters.given_instead(key, entries)
    assert near.startswith("; nearest weights: 'model::layer.7.weight', ") and near.count(",") == 4
    assert parameters.given_instead(key, []) == parameters.given_instead("died by SIGSEGV", entries) == ""


def test_element_types_of_safetensors_are_compared_unless_they_may_hold_others():
    header = b'{"__metadata__": {"format": "pt"}, "w": {"dtype": "BF16"}, "q": {"dtype": "U8"}}'
    types = parameters.safetensors_types(io.BytesIO(struct.pack("<Q", len(header)) + header + b"weights"))
    assert types == {"w": "bf16"}
    assert parameters.other_type("bf16", "f16")
    for held, element in (("bf16", "bf16"), (None, "i4"), ("f32", "complex<f16>")):
        assert not parameters.other_type(held, element)
