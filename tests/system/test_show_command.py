"""`doit show` prints the output values of a case, and also writes them to files if `out=` is given."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from support.project import Project

pytest_plugins = ["support.project"]
pytestmark = pytest.mark.iree

MODULE = """
func.func @main(%a: tensor<?x4xbf16>, %n: i32) -> (tensor<?x4xbf16>, i32) {
  %m = arith.muli %n, %n : i32
  %s = arith.addf %a, %a : tensor<?x4xbf16>
  return %s, %m : tensor<?x4xbf16>, i32
}
"""


def test_the_results_of_a_module_are_shown_though_they_are_wrong_and_written_to_a_folder(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "p")
    (project.root / "m.mlir").write_text(MODULE)
    np.save(project.root / "a.npy", np.ones((3, 4), np.float32))
    words = ("file=m.mlir", "threads=1", "inputs=3x4xbf16=1.5;-7", "expected=a.npy;50")
    assert project.doit(*words, "verify").code == 1
    out = project.doit(*words, "show", "out=made/of")
    assert out.code == 0, out
    header, columns, first, second, verified, *files = out.out.splitlines()
    assert header == "results of module_m_main_default@llvm-cpu-1t, given inputs"
    assert columns.split()[:4] == ["result", "type", "finite", "zeros"]
    assert first.split() == ["0", "3x4xbf16", "12", "0", *("3",) * 9, "…"]
    assert second.split() == ["1", "i32", "1", "0", *("49",) * 4]
    assert verified.startswith("verify: ")
    assert files == ["made/of/result_0.npy", "made/of/result_1.npy"]
    assert (np.load(project.root / files[0]).view(ml_dtypes.bfloat16) == 3).all()
    assert np.load(project.root / files[1]) == 49
    single = project.doit(*words, "show", "out=y.npy")
    assert single.code == 2 and "out=y.npy is one file" in single.err


def test_the_result_of_an_operation_is_written_to_a_file(made: Project, tmp_path: Path) -> None:
    out = made.doit("show", "matmul_16x16x16_f32t_f32t_f32t_data_tiling*", f"out={tmp_path}/y.npy")
    assert out.code == 0, out
    assert "data_tiling@llvm-cpu-1t, random inputs" in out.out and " 16x16xf32 " in out.out
    assert np.load(tmp_path / "y.npy").shape == (16, 16)
