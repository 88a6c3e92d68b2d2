"""`doit extract` writes the dispatches of a program as separate modules."""

from __future__ import annotations

import os
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.support.project import Project
from tests.support.tools import compiler_folder, runtime_folder

pytestmark = pytest.mark.iree

# A loop with two equal products, then a product of another shape.
PROGRAM = """
func.func @main(%x: tensor<8x8xf32>, %y: tensor<8x16xf32>, %n: i32) -> tensor<8x16xf32> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
  %r:2 = scf.while (%a = %x, %i = %c0) : (tensor<8x8xf32>, i32) -> (tensor<8x8xf32>, i32) {
    %lt = arith.cmpi slt, %i, %n : i32
    scf.condition(%lt) %a, %i : tensor<8x8xf32>, i32
  } do {
  ^bb0(%a: tensor<8x8xf32>, %i: i32):
    %m = linalg.matmul ins(%a, %x : tensor<8x8xf32>, tensor<8x8xf32>) outs(%f : tensor<8x8xf32>) -> tensor<8x8xf32>
    %k = linalg.matmul ins(%m, %x : tensor<8x8xf32>, tensor<8x8xf32>) outs(%f : tensor<8x8xf32>) -> tensor<8x8xf32>
    %j = arith.addi %i, %c1 : i32
    scf.yield %k, %j : tensor<8x8xf32>, i32
  }
  %g = tensor.empty() : tensor<8x16xf32>
  %h = linalg.fill ins(%z : f32) outs(%g : tensor<8x16xf32>) -> tensor<8x16xf32>
  %o = linalg.matmul ins(%r#0, %y : tensor<8x8xf32>, tensor<8x16xf32>) outs(%h : tensor<8x16xf32>) -> tensor<8x16xf32>
  return %o : tensor<8x16xf32>
}
"""
BOTH = """
func.func @main(%a: tensor<4xf32>, %x: tensor<?x8xf32>) -> (tensor<4xf32>, tensor<?x8xf32>) {
  %c = arith.constant dense_resource<w> : tensor<4xf32>
  %0 = arith.addf %a, %c : tensor<4xf32>
  %1 = arith.addf %x, %x : tensor<?x8xf32>
  return %0, %1 : tensor<4xf32>, tensor<?x8xf32>
}
{-# dialect_resources: { builtin: { w: "0x040000000000803F000000400000404000008040" } } #-}
"""
# Two loops of one product each, with the same code; the numbers of iterations are arguments.
LOOP = """
  %r{n}:2 = scf.while (%a = {x}, %i = %c0) : (tensor<8x8xf32>, i32) -> (tensor<8x8xf32>, i32) {{
    %lt = arith.cmpi slt, %i, %n{n} : i32
    scf.condition(%lt) %a, %i : tensor<8x8xf32>, i32
  }} do {{
  ^bb0(%a: tensor<8x8xf32>, %i: i32):
    %m = linalg.matmul ins(%a, %x : tensor<8x8xf32>, tensor<8x8xf32>) outs(%f : tensor<8x8xf32>) -> tensor<8x8xf32>
    %j = arith.addi %i, %c1 : i32
    scf.yield %m, %j : tensor<8x8xf32>, i32
  }}"""
LOOPS = f"""
func.func @main(%x: tensor<8x8xf32>, %n1: i32, %n2: i32) -> tensor<8x8xf32> {{
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
{LOOP.format(n=1, x="%x")}
{LOOP.format(n=2, x="%r1#0")}
  return %r2#0 : tensor<8x8xf32>
}}
"""
CASE = ("file=net.mlir", "inputs=8x8xf32;8x16xf32;2", "threads=1")
NAME = "module_net_main_default@llvm-cpu-1t"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project.make(tmp_path_factory.mktemp("extract") / "p")
    for name, text in (("net", PROGRAM), ("both", BOTH), ("loops", LOOPS)):
        (project.root / f"{name}.mlir").write_text(text)
    return project


def sweeps(folder: Path) -> list[dict[str, object]]:
    return tomllib.loads((folder / "sites.toml").read_text()).get("sweep", [])


@pytest.fixture(scope="module")
def bundle(project: Project) -> Path:
    made = project.doit("extract", *CASE, NAME, "out=alone", "replay=yes")
    assert made.code == 0, made
    assert "s01.mlir" in made.out and "also site 2\n" in made.out and "s03.mlir" in made.out
    return project.root / "alone"


def test_equal_sites_are_one_module_which_doit_compiles_and_verifies(project: Project, bundle: Path) -> None:
    assert sorted(path.name for path in bundle.glob("*.mlir")) == ["s01.mlir", "s03.mlir"]
    assert [sweep["name"] for sweep in sweeps(bundle)] == ["net.s01", "net.s03"]
    assert "linalg.matmul net.mlir:20:8" in (bundle / "README").read_text()
    verified = project.doit("specs=alone", "verify:*")
    assert verified.code == 0 and "2 cases: 2 emitted, 2 compiled, 2 verified" in verified.out, verified
    assert "not compared" not in verified.out


def test_a_bundle_needs_the_tools_of_iree_only(bundle: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in bundle.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    results = ""
    path = f"{compiler_folder()}:{runtime_folder()}:/usr/bin:/bin"
    for words in (["run"], ["benchmark", "s01"]):
        ran = subprocess.run(["sh", copy / "repro.sh", *words], env={"PATH": path}, capture_output=True, text=True)
        assert ran.returncode == 0, ran
        results = results or ran.stdout
    assert results == "s01: the same bits as expected\ns03: the same bits as expected\n"
    assert "BM_main" in ran.stdout
    replay = ["iree-run-replay", "--device=local-sync", "s01.ireereplay"]
    assert subprocess.run(replay, cwd=copy, env={"PATH": path}).returncode == 0


def test_constants_in_resources_stay_and_a_size_becomes_an_argument(project: Project) -> None:
    made = project.doit("extract", "file=both.mlir", "inputs=4xf32;6x8xf32", "threads=1", "out=both")
    assert made.code == 0, made
    folder = project.root / "both"
    texts = {path.name: path.read_text() for path in folder.glob("*.mlir")}
    (resource,) = [text for text in texts.values() if 'w: "0x04' in text]
    (sized,) = [text for text in texts.values() if text != resource]
    assert "func @main(%input0: index, %input1: tensor<?xf32>) -> (%output0: tensor<?xf32>)" in sized
    inputs = {str(sweep["file"]): sweep["inputs"] for sweep in sweeps(folder)}
    (name,) = [name for name, text in texts.items() if text == sized]
    assert inputs[name] == ["48", f"48xf32=@{name.removesuffix('.mlir')}.in1.bin"]
    found = project.doit("specs=both", "verify")
    assert found.code == 0 and "2 cases: " in found.out, found
    assert "not compared" not in found.out


def test_a_site_that_the_call_does_not_reach_has_random_inputs_and_says_why(project: Project) -> None:
    made = project.doit("extract", "file=net.mlir", "inputs=8x8xf32;8x16xf32;0", "threads=1", "out=unreached")
    assert made.code == 0 and "s01: not captured: it is not executed in this call" in made.out, made
    first, second = sweeps(project.root / "unreached")
    assert first["inputs"] == ["8x8xf32", "8x8xf32"] and "expected" not in first
    assert second["expected"] == ["8x16xf32=@s03.out0.bin"]


def test_a_chosen_execution_of_a_loop_is_extracted_and_sites_without_it_are_reported(
    project: Project, bundle: Path
) -> None:
    first = project.doit("extract", *CASE, NAME, "sites=1", "execution=1", "out=first")
    assert first.code == 0, first
    folder = project.root / "first"
    operand = (folder / "s01.in0.bin").read_bytes()
    assert operand == (folder / "s01.in1.bin").read_bytes() != (bundle / "s01.in0.bin").read_bytes()
    assert "those of execution 1 of each site" in (folder / "README").read_text()
    second = project.doit("extract", *CASE, NAME, "execution=2", "out=second")
    assert "s03: not captured: it is executed once in this call; execution=2 does not exist" in second.out, second
    assert (project.root / "second/s01.in0.bin").read_bytes() == (bundle / "s01.in0.bin").read_bytes()


def test_a_module_has_the_operands_of_a_site_that_is_executed_so_often(project: Project) -> None:
    words = ("file=loops.mlir", "inputs=8x8xf32;1;2", "threads=1", "execution=2")
    made = project.doit("extract", *words, "out=shared")
    assert made.code == 0 and "not captured" not in made.out, made
    (sweep,) = sweeps(project.root / "shared")
    assert sweep["name"] == "loops.s02" and sweep["expected"] and "also site 1\n" in made.out


def test_an_extraction_replaces_an_earlier_one_and_leaves_other_files(project: Project) -> None:
    words = ("extract", "operation=matmul", "m=8", "n=8", "k=8", "threads=1", "out=it's again")
    made = project.doit(*words)
    assert made.code == 0
    printed = [shlex.split(line.partition(": ")[2]) for line in made.out.splitlines()[-2:]]
    assert printed == [["doit", "specs=it's again", "profile:*"], ["sh", "it's again/repro.sh", "run"]]
    folder = project.root / "it's again"
    (folder / "s09.mlir").write_text("of an earlier extraction")
    (folder / "mine.txt").write_text("mine")
    again = project.doit(*words)
    assert again.code == 0 and not (folder / "s09.mlir").exists() and (folder / "mine.txt").exists()
    assert sweeps(folder)[0]["name"] == "matmul_8x8x8_f32t_f32t_f32t.s01"


def test_a_site_of_an_extracted_module_has_no_module_of_its_own(project: Project, bundle: Path) -> None:
    found = project.doit("extract", f"specs={bundle}", "module_net.s03*", "out=again")
    assert found.code == 2 and "none of these sites has a module" in found.err, found
    assert "the dispatches of this module are formed" in found.err and not (project.root / "again").exists()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((*CASE, "sites=9", "out=b"), 2, ["there is no site 9", "1 … 3", "nearest  3, main_dispatch_"]),
        ((*CASE, "execution=9", "out=b"), 2, ["no site has an execution 9", "2 at most"]),
        ((*CASE, "execution=0", "out=b"), 2, ["execution cannot be '0'"]),
        ((*CASE, "sites=x", "out=b"), 2, ["sites cannot be 'x'"]),
        (CASE, 2, ["extract needs the folder to write"]),
        ((*CASE, "out=specs"), 2, ["out=specs has other files", "mine.toml"]),
        ((*CASE, "out=a,b"), 2, ["out=a,b has a comma", "specs="]),
        ((*CASE, "out=net.mlir"), 2, ["out=net.mlir is a file"]),
        ((*CASE, "module_nets_main_default@llvm-cpu-1t", "out=b"), 3, ["nothing matches", f"Did you mean '{NAME}'?"]),
        (("operation=matmul", "m=8", "n=8", "k=8", "provider=numpy", "out=b"), 2, ["numpy brings its own code"]),
        (("operation=matmul", "m=8,16", "n=8", "k=8", "out=b"), 2, ["extract needs one case"]),
        (("file=broken.mlir", "out=b"), 1, ["the case does not compile", "broken.mlir"]),
    ],
)
def test_wrong_input_is_reported_before_anything_is_written(
    project: Project, words: tuple[str, ...], code: int, said: list[str]
) -> None:
    (project.root / "specs/mine.toml").write_text("")
    (project.root / "broken.mlir").write_text("func.func @main() { nothing }")
    found = project.doit("extract", *words)
    assert found.code == code, found
    for part in said:
        assert part in found.err, found
    assert not os.path.lexists(project.root / "b")
