"""The compiler treats an extracted dispatch in the same way as the original dispatch in the program.

`_extractor.py` extracts the dispatch. These tests use the compiler's real Python bindings."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.tools import compiler_folder

from dispatchflow.iree.flags import FORMED
from dispatchflow.models import extraction

pytestmark = pytest.mark.iree

# Global optimization rewrites this product with a strided input into a slice and a product, which the compiler tiles in
# another way. A program can have such a product after that phase, for example in the shortcuts of ResNet-50 (IREE
# 3.13).
PROGRAM = """
!a = !iree_tensor_ext.dispatch.tensor<readonly:tensor<16x28x28xf32>>
!b = !iree_tensor_ext.dispatch.tensor<readonly:tensor<32x16xf32>>
!c = !iree_tensor_ext.dispatch.tensor<writeonly:tensor<32x14x14xf32>>
flow.executable private @strided {
  flow.executable.export public @strided_reduction workgroups() -> (index, index, index) {
    %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
    flow.return %x, %y, %z : index, index, index
  }
  builtin.module {
    func.func @strided_reduction(%arg0: !a, %arg1: !b, %arg2: !c) {
      %zero = arith.constant 0.0 : f32
      %a = iree_tensor_ext.dispatch.tensor.load %arg0, offsets = [0, 0, 0],
        sizes = [16, 28, 28], strides = [1, 1, 1] : !a -> tensor<16x28x28xf32>
      %b = iree_tensor_ext.dispatch.tensor.load %arg1, offsets = [0, 0],
        sizes = [32, 16], strides = [1, 1] : !b -> tensor<32x16xf32>
      %empty = tensor.empty() : tensor<32x14x14xf32>
      %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<32x14x14xf32>) -> tensor<32x14x14xf32>
      %c = linalg.generic {
        indexing_maps = [
          affine_map<(i, j, k, r) -> (r, j * 2, k * 2)>,
          affine_map<(i, j, k, r) -> (i, r)>,
          affine_map<(i, j, k, r) -> (i, j, k)>
        ],
        iterator_types = ["parallel", "parallel", "parallel", "reduction"]
      } ins(%a, %b : tensor<16x28x28xf32>, tensor<32x16xf32>) outs(%fill : tensor<32x14x14xf32>) {
      ^bb0(%x: f32, %y: f32, %sum: f32):
        %p = arith.mulf %x, %y : f32
        %s = arith.addf %sum, %p : f32
        linalg.yield %s : f32
      } -> tensor<32x14x14xf32>
      iree_tensor_ext.dispatch.tensor.store %c, %arg2, offsets = [0, 0, 0],
        sizes = [32, 14, 14], strides = [1, 1, 1] : tensor<32x14x14xf32> -> !c
      return
    }
  }
}
util.func public @main(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view) -> !hal.buffer_view
    attributes {iree.abi.stub} {
  %a = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<16x28x28xf32>
  %b = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<32x16xf32>
  %c = flow.dispatch @strided::@strided_reduction(%a, %b) : (tensor<16x28x28xf32>, tensor<32x16xf32>) -> tensor<32x14x14xf32>
    loc("df.site.0")
  %r = hal.tensor.export %c "output0" : tensor<32x14x14xf32> -> !hal.buffer_view
  util.return %r : !hal.buffer_view
}
"""
FLAGS = ("--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu")


def configured(folder: Path, source: str, *flags: str) -> str:
    dump = folder / f"of_{source}"
    tool = compiler_folder() / "iree-compile"
    argv = [tool, source, *FLAGS, *flags, f"--iree-hal-dump-executable-configurations-to={dump}", "-o", "code.vmfb"]
    subprocess.run(argv, cwd=folder, check=True)
    (file,) = dump.iterdir()
    return file.read_text()


def test_no_phase_before_flow_changes_an_extracted_dispatch_again(tmp_path: Path) -> None:
    (tmp_path / "program.mlir").write_text(PROGRAM)
    argv = extraction.extractor_argv(
        sys.executable, os.fspath(compiler_folder().parents[2]), "program.mlir", "facts.json"
    )
    subprocess.run(argv, cwd=tmp_path, check=True)
    (module,) = json.loads((tmp_path / "facts.json").read_text())["modules"]
    assert [argument["type"] for argument in module["arguments"]] == ["tensor<16x28x28xf32>", "tensor<32x16xf32>"]
    own = configured(tmp_path, "program.mlir", FORMED)
    assert "distribution" in own and configured(tmp_path, "0.mlir", FORMED) == own
    assert configured(tmp_path, "0.mlir") != own  # all phases ran; if this fails, no phase changes the dispatch now
