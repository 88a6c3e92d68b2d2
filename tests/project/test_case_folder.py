"""After a run, `build/CASE/` and `doit explain` show the state that the run found.

This holds even if a case returns to an earlier state."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.project import Project
from support.tools import Outcome

pytest_plugins = ["support.project"]
pytestmark = pytest.mark.iree

MODULE = """\
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {{
  %two = arith.constant dense<{}.0> : tensor<4xf32>
  %b = arith.mulf %a, %two : tensor<4xf32>
  return %b : tensor<4xf32>
}}
"""
SPEC = """\
[[sweep]]
operation = "module"
file = "m.mlir"
inputs = ["4xf32=1"]
expected = ["two.npy"]
threads = 1
"""


def multiplied_by(constant: int, project: Project, **variables: str) -> tuple[Outcome, Path]:
    (project.root / "specs/m.mlir").write_text(MODULE.format(constant))
    outcome = project.doit("verify", **variables)
    return outcome, next((project.root / "build").glob("module_*"))


def test_the_view_and_explain_follow_a_case_back_to_an_earlier_state(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "project", SPEC)
    np.save(project.root / "specs/two.npy", np.full(4, 2, np.float32))
    for constant in (2, 3, 2, 3):
        outcome, folder = multiplied_by(constant, project)
        assert outcome.code == (constant != 2), str(outcome)
        assert f"dense<{constant}." in (folder / "module.mlir").read_text()
        verification = "within bound" if constant == 2 else "different"
        assert f"verification   {verification}\n" in (folder / "case.txt").read_text()
        explained = project.doit("explain", "verify:*").out
        assert "CHANGED" not in explained
        assert f"also in {folder}:" in explained
    assert "nothing to do" in outcome.out

    elsewhere = project.copy(tmp_path / "elsewhere")  # the same store, but its own build/
    multiplied_by(2, project)
    _, folder = multiplied_by(2, elsewhere, DISPATCHFLOW_STORE=str(project.store))
    assert "dense<2." in (folder / "module.mlir").read_text()

    (project.root / "specs/m.mlir").write_text(MODULE.format(3))
    explained = project.doit("explain", "verify:*").out  # known, but build/ is of the run before
    assert "also in" not in explained
    assert "does not show this state; a run with the same words" in explained
