"""`doit trace out=net.json` writes the timeline of one call, with the real compiler and runtime."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.loops import loop, program
from tests.support.project import Project

pytestmark = pytest.mark.iree

LAST = """
  %g = linalg.fill ins(%z : f32) outs(%e : tensor<16x16xf32>) -> tensor<16x16xf32>
  %s = linalg.matmul ins(%x, %r#0 : tensor<16x16xf32>, tensor<16x16xf32>) outs(%g : tensor<16x16xf32>)
    -> tensor<16x16xf32> loc("head/matmul")"""
NET = program(16, ("%n",), loop("r", "%x", "%n", 16, "blocks.0/matmul") + LAST, "%s")
CASE = ("file=net.mlir", "inputs=16x16xf32;3", "protocol=fast")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = Project.make(tmp_path_factory.mktemp("timeline") / "p")
    (made.root / "net.mlir").write_text(NET)
    return made


@pytest.mark.parametrize("threads", [1, 2])
def test_each_execution_is_a_slice_of_its_site_inside_the_call(project: Project, threads: int) -> None:
    out = project.doit(*CASE, f"threads={threads}", "trace", "out=call.json")
    assert out.code == 0, out
    assert out.out.startswith("one call of module_net_main") and "4 executions of 2 sites in " in out.out
    events = json.loads((project.root / "call.json").read_text())["traceEvents"]
    dispatches = [each for each in events if each.get("cat") == "dispatches"]
    assert [each["name"] for each in dispatches] == ["1 blocks.0/matmul"] * 3 + ["2 head/matmul"]
    assert all("matmul_16x16x16" in each["args"]["kernel"] for each in dispatches)
    executes = {each["args"]["submission"]: each for each in events if each["name"] == "execute"}
    assert len(executes) == 4 and min(each["ts"] for each in events if each["ph"] == "X") == 0
    for each in dispatches:
        around = executes[each["args"]["submission"]]
        assert around["ts"] <= each["ts"]
        assert each["ts"] + each["dur"] <= around["ts"] + around["dur"] + 0.001
    assert project.counts()["profile"] == 0  # the traced call is not recorded as a measurement


def test_bad_input_is_refused_and_no_file_written(project: Project, tmp_path: Path) -> None:
    out = tmp_path / "call.json"

    def refused(*words: str) -> tuple[int, str]:
        found = project.doit(*words, f"out={out}")
        return found.code, found.err

    code, said = refused(*CASE, "trace", "format=csv")
    assert code == 2 and "without zones" in said and "format=" in said
    found = project.doit("trace", f"out={out}", "--", "sleep", "1")
    assert found.code == 2 and "takes one call of a case" in found.err
    code, said = refused("trace", "net.tracy")
    assert code == 2 and "takes one call of a case" in said
    code, said = refused(*CASE, "target=cuda-sm_80", "trace")
    assert code == 1 and "cannot be profiled" in said and "the runtime records no profiles on cuda" in said
    code, said = refused(*CASE, "target=vulkan-adreno", "trace")
    assert code == 1 and "cannot be run" in said
    code, said = refused("m=16", "n=16", "k=16", "provider=numpy", "trace")
    assert code == 2 and "numpy brings its own code" in said
    assert not out.exists()
    found = project.doit(*CASE, "trace", "out=missing/call.json")
    assert found.code == 2 and "no folder 'missing'" in found.err
    found = project.doit(*CASE, "trace", "out=call.pftrace")
    assert found.code == 2 and "or .json for ui.perfetto.dev" in found.err
