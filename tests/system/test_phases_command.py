"""`doit phases` shows the module after each phase of the real compiler."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.project import Project

pytestmark = pytest.mark.iree

WORDS = ("m=16", "n=16", "k=16", "threads=1", "tuning=default,data_tiling", "flags=;--mlir-print-debuginfo")
NAME = "matmul_16x16x16_f32t_f32t_f32t_default@llvm-cpu-1t"
TILED = "matmul_16x16x16_f32t_f32t_f32t_data_tiling@llvm-cpu-1t"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project.make(tmp_path_factory.mktemp("phases") / "p")


def test_phases_are_listed_and_linked_in_the_order_of_the_compiler(project: Project) -> None:
    listed = project.doit(*WORDS, "phases", NAME)
    assert listed.code == 0 and "note:" not in listed.out, listed
    names = [line.split()[1] for line in listed.out.splitlines()[2:]]
    assert names[0] == "input" and names[-1] == "vm" and names.index("flow") < names.index("stream")
    assert "not run again" not in project.doit("store", "check", "sample=all").out
    for line in listed.out.splitlines()[2:]:
        assert (project.root / line.split()[-1]).read_text().strip()


def test_two_cases_differ_first_at_a_phase_that_is_named(project: Project) -> None:
    out = project.doit(*WORDS, "phases", NAME, f"with={TILED}").out
    assert "first difference: after dispatch-creation\n" in out
    assert f"--- {NAME}/" in out and "\n+" in out and "encoding" in out
    only = project.doit(*WORDS, "phases", f"compile:{NAME}", f"with=compile:{TILED}", "from=input").out
    assert only.endswith("no difference after input\n")


def test_a_compile_with_locations_and_one_without_are_the_same(project: Project) -> None:
    words = project.doit(*WORDS, "list", "--all", "compile").out.split()
    located = next(word.removeprefix("compile:") for word in words if "default" in word and "debuginfo" in word)
    out = project.doit(*WORDS, "phases", NAME, f"with={located}").out
    assert " loc(" in next((project.root / "build" / located / "phases").glob("6.*")).read_text()
    assert out.endswith("no difference\n") and "differs" not in out, out


def test_two_phases_of_one_case_are_compared(project: Project) -> None:
    one = project.doit(*WORDS, "phases", NAME, "from=flow", "to=7").out
    assert one.startswith("--- 6.flow.mlir\n+++ 7.stream.mlir\n")
    assert project.doit(*WORDS, "phases", NAME, "from=flow").out == one
    assert project.doit(*WORDS, "phases", NAME, "to=stream", "out=d.txt").out == ""
    assert (project.root / "d.txt").read_text() == one
    last = project.doit(*WORDS, "phases", NAME, "from=12")
    assert last.code == 2 and "there is no later phase to compare with" in last.err
    wrong = project.doit(*WORDS, "phases", NAME, "from=flwo")
    assert wrong.code == 2 and "Did you mean 'flow'?" in wrong.err


def test_phases_writes_all_passes_and_the_host_program_and_lists_the_slowest_passes(project: Project) -> None:
    out = project.doit(*WORDS, "phases", NAME, "pass=all", "output=vm-asm", "timing=yes")
    assert out.code == 0, out
    slowest = out.out.splitlines()[2]
    assert "%" in slowest and len(out.out.splitlines()) == 2 + 10 + 2
    made = project.root / "build" / NAME / "phases"
    assert "IR Dump After" in (made / "passes.txt").read_text() and "vm.module" in (made / "module.vm-asm").read_text()


def test_the_phases_before_a_failure_are_shown(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "p")
    (project.root / "f64.mlir").write_text(
        "func.func @main(%x: tensor<4xf64>) -> tensor<4xf64> {\n"
        "  %r = math.erf %x : tensor<4xf64>\n  return %r : tensor<4xf64>\n}\n"
    )
    out = project.doit("file=f64.mlir", "target=vulkan", "flags=--iree-input-demote-f64-to-f32=false", "phases")
    assert out.code == 1 and "only the phases before this failure exist: " in out.out, out
    assert "  flow  " in out.out and "  vm  " not in out.out


def test_one_case_is_needed_and_it_must_be_compiled(project: Project) -> None:
    assert "phases needs one case" in project.doit(*WORDS, "phases").err
    assert "there is no case 'x'" in project.doit(*WORDS, "phases", NAME, "with=x").err
    library = project.doit("m=16", "n=16", "k=16", "threads=1", "provider=numpy", "phases")
    assert library.code == 2 and "has no phases" in library.err
