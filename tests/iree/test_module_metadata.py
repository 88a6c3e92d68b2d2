"""The name and the functions of a compiled module are read from the output of `iree-dump-module`."""

from __future__ import annotations

import pytest

from dispatchflow.errors import ToolError
from dispatchflow.iree import module_metadata
from dispatchflow.mlir.functions import Declaration

DUMP = """\
//===---===//
// @net : version 0
//===---===//

Imported Functions:
  [  0] hal.buffer.assert(!vm.ref<?>, !vm.ref<?>, !vm.ref<?>, i64, i32, i32) -> ()

Exported Functions:
  [  0] main(!vm.ref<?>, i32) -> (!vm.ref<?>, i32)
        iree.abi.declaration: sync func @main(%input0: tensor<?x4xbf16>, %input1: i32) -> (%output0: tensor<f32>, \
%output1: i32)
  [  1] nothing() -> ()
        iree.abi.declaration: sync func @nothing() -> ()
  [  2] later$async(!vm.ref<?>, !vm.ref<?>, !vm.ref<?>) -> (!vm.ref<?>)
        iree.abi.declaration: async func @later(%input0: !hal.buffer_view) -> (%output0: tensor<4xi8>)
  [  3] imported$async(!vm.ref<?>, !vm.ref<?>, !vm.ref<?>) -> (!vm.ref<?>)
  [  4] imported(!vm.ref<?>, i64) -> (!vm.ref<?>)
  [ 10] __init() -> ()

Module State:
  0 bytes, 4 refs, ~64 bytes total
"""


def test_functions_have_their_types() -> None:
    found = module_metadata.parse(DUMP)

    assert found.name == "net"
    assert found.functions == {
        "main": Declaration(("?x4xbf16", "i32"), ("tensor<f32>", "i32")),
        "nothing": Declaration((), ()),
        "later$async": Declaration(("!hal.buffer_view",), ("4xi8",)),
        "imported": Declaration(("!hal.buffer_view", "i64"), ("!hal.buffer_view",)),
    }
    assert found.fenced == {"later$async"}


def test_a_text_that_is_not_module_metadata_is_refused() -> None:
    with pytest.raises(ToolError, match="no name"):
        module_metadata.parse("usage: …")
