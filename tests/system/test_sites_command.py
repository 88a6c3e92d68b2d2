"""`doit sites` finds and measures the sites of a case, with the real compiler and runtime."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from dispatchflow.iree import profile_events
from dispatchflow.results import parquet
from dispatchflow.results.site_rows import SITE_ROWS
from tests.support import lavapipe
from tests.support.loops import loop, program
from tests.support.project import REPOSITORY, Project

pytestmark = pytest.mark.iree

LOOPS = program(
    16, ("%n",), loop("r", "%x", "%n", 16, "first.matmul") + loop("s", "%r#0", "%n", 16, "second.matmul"), "%s#0"
)
CASE = ("file=loops.mlir", "inputs=16x16xf32;3", "protocol=fast")


@pytest.fixture(scope="module")
def loops(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project.make(tmp_path_factory.mktemp("loops") / "p")
    (project.root / "loops.mlir").write_text(LOOPS)
    out = project.doit(*CASE, "sites")
    assert out.code == 0, out
    return project


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_doit_sites_writes_the_sites_into_a_view_that_was_written_again(loops: Project, tmp_path: Path) -> None:
    project = loops.copy(tmp_path / "p")
    (folder,) = project.root.glob("build/module_*")
    text = (folder / "sites.txt").read_text()
    shutil.rmtree(folder)
    assert project.doit(*CASE, "profile").code == 0
    assert not (folder / "sites.txt").exists()
    again = project.doit(*CASE, "sites")
    assert "up to date" in again.out and (folder / "sites.txt").read_text() == text
    (folder / "sites.txt").write_text("kept")
    assert project.doit(*CASE, "profile").code == 0
    assert (folder / "sites.txt").read_text() == "kept"


def test_sites_of_two_loops_with_one_kernel_have_their_own_names_and_times(loops: Project) -> None:
    again = loops.doit(*CASE, "sites")
    assert "1 case: up to date (1 reused) in " in again.out
    assert "first.matmul" in again.out and "second.matmul" in again.out and "one call takes " in again.out
    first, second = rows_of(loops.doit(*CASE, "sites", "format=csv").out)
    assert [first["operations"], second["operations"]] == ['["first.matmul"]', '["second.matmul"]']
    assert first["kernel"] == second["kernel"]
    assert first["executions"] == second["executions"] == "3.0"
    assert float(first["median_ns"]) > 0 and first["flops"] == str(2 * 16**3)


def test_a_profile_alone_traces_nothing_and_plan_says_what_sites_would_do(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "p")
    (project.root / "loops.mlir").write_text(LOOPS)
    assert "sites" not in project.doit(*CASE, "plan").out
    assert "sites    1 of 1 to run" in project.doit("plan", *CASE, "sites").out
    assert project.doit(*CASE, "compile").code == 0
    listed = project.doit("list", "-s", *CASE, "sites").out
    assert "to run: verify, profile, sites" in listed


def test_rows_are_chosen_by_kernel_sorted_and_written_to_a_file(loops: Project) -> None:
    (kernel, _) = {row["kernel"]: 0 for row in rows_of(loops.doit(*CASE, "sites", "format=csv").out)}.popitem()
    out = loops.root / "sites.csv"
    found = loops.doit(*CASE, "sites", f"kernel={kernel}", "sort=-site", "top=1", "format=csv", f"out={out}")
    assert found.code == 0 and [row["site"] for row in rows_of(out.read_text())] == ["2"]
    unknown = loops.doit(*CASE, "sites", "kernel=nothing")
    assert unknown.code == 3 and "no site has the kernel 'nothing'" in unknown.err and unknown.err.count(kernel) == 1
    column = loops.doit(*CASE, "sites", "sort=nothing")
    assert "depth= needs by=scope" in loops.doit(*CASE, "sites", "depth=2").err
    assert column.code == 2 and "no column 'nothing'" in column.err
    assert "means nothing to this command" in loops.doit(*CASE, "profile", "by=op").err


def test_sites_and_their_ceilings_are_measured_again_if_the_case_is(loops: Project, tmp_path: Path) -> None:
    project = loops.copy(tmp_path / "p")
    (times,) = project.root.glob("build/module_*/site_times.json")
    before = times.read_bytes()
    assert "1 case: 1 measured in " in project.doit(*CASE, "profile", "remeasure=yes").out
    kept = project.doit(*CASE, "sites")
    assert "up to date" in kept.out and times.read_bytes() == before, kept
    assert "sites    1 of 1 to run" in project.doit("plan", *CASE, "sites", "remeasure=yes").out
    again = project.doit(*CASE, "sites", "remeasure=yes")
    assert again.code == 0 and HIGHEST in again.out, again
    assert "1 case: 1 measured, 1 with sites found in " in again.out
    assert times.read_bytes() != before


HIGHEST = "measuring this machine's highest compute and memory rates with calibration kernels"


def test_initializers_have_one_time_in_all_from_a_replay_of_the_load(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "p")
    (project.root / "load.mlir").write_text(LOADED)
    words = ("file=load.mlir", "flags=--iree-opt-const-eval=false", "threads=1", "protocol=fast", "sites")
    found = project.doit(*words)
    assert found.code == 0, found
    (line,) = (line for line in found.out.splitlines() if line.startswith("at load: "))
    assert re.fullmatch(r"at load: 1 site, [\d.,]+ [mµn]s in all, by replay", line)
    (times,) = project.root.glob("build/module_*/site_times.json")
    assert 0 < json.loads(times.read_text())["at_load_ns"] < 1e9


def test_a_load_that_cannot_be_recorded_has_no_time_and_the_reason_is_shown(tmp_path: Path) -> None:
    try:
        vulkan = lavapipe.environment(REPOSITORY / ".lavapipe")
    except lavapipe.Unavailable as error:
        pytest.skip(f"no Vulkan here: {error}")
    project = Project.make(tmp_path / "p")
    (project.root / "load.mlir").write_text(LOADED)
    words = ("file=load.mlir", "flags=--iree-opt-const-eval=false", "target=vulkan", "protocol=fast", "sites")
    found = project.doit(*words, **vulkan)
    assert found.code == 0, found
    (line,) = (line for line in found.out.splitlines() if line.startswith("at load: "))
    assert re.fullmatch(r"at load: 1 site, without a time: the load cannot be recorded and replayed: died by .+", line)


PRODUCT = """
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x64xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<64x64xf32>) -> tensor<64x64xf32>
  %c = linalg.matmul ins(%a, %a : tensor<64x64xf32>, tensor<64x64xf32>) outs(%f : tensor<64x64xf32>) -> tensor<64x64xf32>
"""
LOADED = f"""\
util.global private @w : tensor<64x64xf32>
util.initializer {{
  %a = util.unfoldable_constant dense<0.5> : tensor<64x64xf32>{PRODUCT}
  util.global.store %c, @w : tensor<64x64xf32>
  util.return
}}
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {{
  %w = util.global.load @w : tensor<64x64xf32>
  %a = arith.addf %x, %w : tensor<64x64xf32>{PRODUCT}
  return %c : tensor<64x64xf32>
}}
"""
"""A module with two matrix products: one in `@main`, and one in an initializer, which runs at load."""


def test_times_are_added_up_by_operation(loops: Project) -> None:
    text = loops.doit(*CASE, "sites", "by=scope").out
    assert "part" in text and "first" in text and "second" in text
    parts = rows_of(loops.doit(*CASE, "sites", "by=scope", "format=csv").out)
    assert sorted((row["part"], row["sites"]) for row in parts) == [("first", "[1]"), ("second", "[2]")]
    assert sum(float(row["share"]) for row in parts) < 1


def test_a_site_that_was_measured_alone_has_that_time_beside_it(loops: Project, tmp_path: Path) -> None:
    project = loops.copy(tmp_path / "p")
    assert project.doit("extract", *CASE, "out=alone").code == 0
    assert "alone" not in project.doit(*CASE, "sites").out.splitlines()[1].split()
    assert project.doit("specs=alone", "protocol=fast", "profile").code == 0
    text = project.doit(*CASE, "sites").out
    assert text.splitlines()[1].split()[:5] == ["site", "calls", "median", "±", "alone"]
    first, second = rows_of(project.doit(*CASE, "sites", "format=csv").out)
    assert first["alone_ns"] == second["alone_ns"]  # both sites are the same extracted module
    assert first["configuration"].startswith("DoubleTilingExpert ")
    assert 0.01 < float(first["alone_ns"]) / (float(first["median_ns"]) / 3) < 100  # right unit, right number of calls
    assert "the compiler applied" not in text
    assert project.doit("specs=alone", "protocol=fast", "cache=cold", "profile").code == 0
    assert rows_of(project.doit(*CASE, "sites", "format=csv").out)[0]["alone_ns"] == first["alone_ns"]


def test_an_operation_has_sites_and_a_library_has_none(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "p")
    words = ("operation=matmul", "m=16", "n=16", "k=16", "protocol=fast", "sites")
    both = project.doit(*words, "provider=iree,numpy")
    assert both.code == 0 and "main_dispatch_0_matmul_16x16x16_f32" in both.out
    assert "off: numpy brings its own code, whose dispatches are unknown" in both.out


def test_without_a_device_sites_have_no_times(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "p")
    (project.root / "loops.mlir").write_text(LOOPS)
    words = ("file=loops.mlir", "inputs=16x16xf32;3", "protocol=fast", "target=cuda-sm_80", "sites")
    found = project.doit(*words)
    assert found.code == 0, found
    assert "first.matmul" in found.out and "no times: the runtime records no profiles on cuda" in found.out
    assert "1 case: up to date" in project.doit(*words).out


def test_each_site_is_a_row_that_joins_the_case_s_and_is_written_once(loops: Project) -> None:
    rows = parquet.read(loops.store / "sites", SITE_ROWS)
    assert [row["operations"] for row in rows] == [["first.matmul"], ["second.matmul"]]
    (case,) = loops.rows()
    common = ("case", "code_digest", "measurement_key", "run_id", "toolchain_version", "target", "device", "threads")
    for row in rows:
        assert {name: row[name] for name in (*common, "protocol")} == {
            name: case[name] for name in (*common, "protocol")
        }
        assert row["median_ns"] > 0 and row["number"] > case["number"]
    assert (loops.root / "build/sites").resolve() == (loops.store / "sites").resolve()
    (part,) = (loops.store / "sites").iterdir()
    before = part.read_bytes()
    part.unlink()
    assert loops.doit(*CASE, "sites").code == 0
    assert [path.read_bytes() for path in (loops.store / "sites").iterdir()] == [before]


def test_a_clean_keeps_the_sites_of_cases_that_there_are(loops: Project, tmp_path: Path) -> None:
    project = loops.copy(tmp_path / "p")
    spec = '[[sweep]]\noperation = "module"\nfile = "../loops.mlir"\ninputs = ["16x16xf32;3"]\n'
    project.add(spec.replace('"16x16xf32;3"', '"16x16xf32", "3"'))
    kept = project.doit("store", "clean", "keep=referenced")
    assert kept.code == 0, kept
    held = {stage for (stage,) in project.query("select distinct stage from record where outputs <> '{}'")}
    assert held >= {"provenance", "sites"}
    project.add('[[sweep]]\noperation = "matmul"\nm = 8\nn = 8\nk = 8\n')
    assert project.doit("store", "clean", "keep=referenced").code == 0
    held = {stage for (stage,) in project.query("select distinct stage from record where outputs <> '{}'")}
    assert not held & {"provenance", "sites"}


def test_the_view_has_the_sites_and_profiles_them_by_hand(loops: Project, tmp_path: Path) -> None:
    project = loops.copy(tmp_path / "p")
    (folder,) = project.root.glob("build/module_*")
    text = (folder / "sites.txt").read_text()
    assert text.startswith(f"sites of {folder.name}\nsite ") and "second.matmul" in text
    assert b"first.matmul" in (folder / "sites.json").read_bytes()
    assert (folder / "flow.mlirbc").read_bytes().startswith(b"ML\xefR")
    ran = subprocess.run([folder / "repro.sh", "sites"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert profile_events.parse((folder / "calls.jsonl").read_bytes()).dropped == 0
    out = project.doit("explain", *CASE, "sites:*").out
    assert "sites.json" in out
    sites = out.split("\nsites: made")[1].split("\n\n")[0]
    tracing, times = sites.split("\n  key of the times  ")
    assert "\n  key of the provenance  " in tracing and "\n  compile     " in tracing and "\n  source      " in tracing
    assert "\n  traced      " in times and "\n  protocol    " in times


def test_a_run_in_which_the_verification_fails_has_the_sites_without_times(tmp_path: Path) -> None:
    project = Project.make(tmp_path)
    (tmp_path / "sum.mlir").write_text(
        "func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {\n"
        "  %y = arith.addf %x, %x : tensor<64xf32>\n  return %y : tensor<64xf32>\n}\n"
    )
    (tmp_path / "zero.bin").write_bytes(bytes(256))
    words = ("file=sum.mlir", "inputs=64xf32=1", "expected=zero.bin", "threads=1", "sites")

    first, again = project.doit(*words), project.doit(*words)

    assert first.code == again.code == 1
    for outcome in (first, again):
        assert "arith.addf sum.mlir:2:8" in outcome.out and "no times: verification failed: 64 elements" in outcome.out
    assert "1 case: 1 failed; " in first.out and "1 with sites found in " in first.out


def test_damaged_sites_are_reported_and_made_again(loops: Project, tmp_path: Path) -> None:
    project = loops.copy(tmp_path / "p")
    (made,) = project.root.glob("build/module_*/sites.json")
    made.resolve().chmod(0o644)
    made.resolve().write_bytes(b"{}")

    damaged, again = project.doit(*CASE, "sites"), project.doit(*CASE, "sites")

    assert "damaged; the next run makes them" in damaged.out and "the store has it" not in damaged.out
    assert "first.matmul" in again.out
