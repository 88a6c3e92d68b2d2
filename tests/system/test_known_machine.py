"""A new project uses what earlier projects measured about this machine.

For example, it does not measure the machine's highest compute and memory rates again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from support.project import Project, only, sweep
from support.tools import finished

from dispatchflow.iree.targets import TARGETS
from dispatchflow.project.workspace import Workspace

pytest_plugins = ["support.project"]
pytestmark = pytest.mark.iree

WORDS = ("protocol=fast", "profile")
CALIBRATION = "measuring this machine's highest compute and memory rates "


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make measurements short and without pauses.

    In measurements without pauses, waits for a CPU are not recorded. If they were recorded, the machine's history would
    leave out a run in which too many benchmark processes waited."""
    monkeypatch.setenv("DISPATCHFLOW_TESTS_SHORT_MEASUREMENTS", "1")


def new(root: Path, m: int = 16) -> Project:
    return Project.make(root, sweep(m=m))


def session(project: Project) -> dict[str, Any]:
    query = "select conditions from measurement where conditions ->> 'session' is not null order by id desc limit 1"
    return dict(json.loads(project.query(query)[0][0])["session"])


def of_machine(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["ceiling_flops_per_s"], row["ceiling_bytes_per_s"], row["anchors_reference_ns"]


def test_a_second_project_does_not_calibrate_and_goes_on_with_the_anchors(tmp_path: Path) -> None:
    cache = {"DISPATCHFLOW_CACHE": str(tmp_path / "cache")}
    first, second = new(tmp_path / "first"), new(tmp_path / "second", m=20)

    outcome = first.doit(*WORDS, **cache)
    assert (outcome.code, CALIBRATION in outcome.out) == (0, True), str(outcome)
    outcome = second.doit(*WORDS, **cache)

    assert (outcome.code, CALIBRATION in outcome.out) == (0, False), str(outcome)
    assert second.counts() == only(emit=1, compile=1, verify=1, profile=1)
    ((one,), (other,)) = first.rows(), second.rows()
    assert None not in of_machine(one)
    assert of_machine(one) == of_machine(other)
    assert (session(first)["sessions"], session(second)["sessions"]) == (1, 2)
    assert "unreferenced" not in second.doit("store", **cache).out
    assert f"for all your projects: {tmp_path / 'cache'}, " in second.doit("store", **cache).out
    idle = second.doit(*WORDS, **cache)
    assert "up to date" in idle.out, str(idle)

    # The project's store has a copy of the facts: if their directory is lost, as in a new container, it uses the copy.
    second.add(sweep(m=24))
    outcome = second.doit(*WORDS, DISPATCHFLOW_CACHE=str(tmp_path / "empty"))
    assert (outcome.code, CALIBRATION in outcome.out) == (0, False), str(outcome)
    assert {of_machine(row) for row in map(_hashable, second.rows())} == {of_machine(_hashable(one))}
    assert session(second)["sessions"] == 3


def _hashable(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "anchors_reference_ns": tuple(row["anchors_reference_ns"])}


def test_a_damaged_machine_directory_is_written_again(tmp_path: Path) -> None:
    cache = {"DISPATCHFLOW_CACHE": str(tmp_path / "cache")}
    assert new(tmp_path / "first").doit(*WORDS, **cache).code == 0
    kept = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    for path in kept:
        os.truncate(path, path.stat().st_size // 2)

    outcome = new(tmp_path / "second").doit(*WORDS, **cache)

    assert (outcome.code, CALIBRATION in outcome.out) == (0, True), str(outcome)
    assert CALIBRATION not in new(tmp_path / "third").doit(*WORDS, **cache).out


def test_the_store_keeps_the_calibration_if_the_machine_directory_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    nowhere = {"DISPATCHFLOW_CACHE": str(tmp_path / "file" / "cache")}
    project = new(tmp_path / "project")

    outcome = project.doit(*WORDS, **nowhere)
    assert (outcome.code, CALIBRATION in outcome.out, outcome.err) == (0, True, ""), str(outcome)
    project.add(sweep(m=20))
    outcome = project.doit(*WORDS, **nowhere)

    assert (outcome.code, CALIBRATION in outcome.out, outcome.err) == (0, False, ""), str(outcome)
    assert session(project)["sessions"] == 2


def test_two_new_projects_at_once_share_what_they_find(tmp_path: Path) -> None:
    cache = {"DISPATCHFLOW_CACHE": str(tmp_path / "cache")}
    projects = [new(tmp_path / name) for name in ("first", "second")]

    outcomes = [finished(process) for process in [project.start(*WORDS, **cache) for project in projects]]

    assert [outcome.code for outcome in outcomes] == [0, 0], "\n".join(map(str, outcomes))
    ((one,), (other,)) = (project.rows() for project in projects)
    assert one["anchors_reference_ns"] == other["anchors_reference_ns"]


def test_the_sites_of_a_module_have_ceilings_of_their_own_types(tmp_path: Path) -> None:
    project, cache = Project.make(tmp_path / "p"), {"DISPATCHFLOW_CACHE": str(tmp_path / "cache")}
    peaks = {}
    for file, elements in (("one.mlir", ("f64", "i32")), ("two.mlir", ("f64",)), ("three.mlir", ("f32",))):
        (project.root / file).write_text("".join(_product(element) for element in elements))
        words = (f"file={file}", "threads=1", "protocol=fast", "sites")
        outcome = project.doit(*words, **cache)
        assert (outcome.code, CALIBRATION in outcome.out) == (0, file != "two.mlir"), str(outcome)
        rows = [json.loads(line) for line in project.doit(*words, "format=jsonl", **cache).out.splitlines()]
        peaks |= {(file, row["function"]): (row["bound"], row["percent_of_peak"]) for row in rows if row["executions"]}
    assert peaks.pop(("one.mlir", "i32")) == (None, None)  # no calibration kernel measures integer arithmetic
    assert len(peaks) == 3 and all(bound is not None and percent > 0 for bound, percent in peaks.values())


def test_ceilings_that_a_site_exceeds_are_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPATCHFLOW_CACHE", str(tmp_path / "cache"))
    project, target = Project.make(tmp_path / "p"), TARGETS["llvm-cpu"]
    (project.root / "net.mlir").write_text(_product("f32"))
    workspace = Workspace(project.root, {})
    name = workspace.ceilings.name(target, workspace.device(target, 1))
    workspace.store.records.remember(name, json.dumps({"f32": 1.0, "cache": 1.0, "cache_read": 1.0}))
    words = ("file=net.mlir", "threads=1", "protocol=fast", "sites")
    outcome = project.doit(*words)
    assert (outcome.code, CALIBRATION in outcome.out) == (0, False), str(outcome)
    (row,) = [json.loads(line) for line in project.doit(*words, "format=jsonl").out.splitlines()]
    assert 0 < row["percent_of_peak"] < 10_000


def _product(element: str) -> str:
    kind, zero = f"tensor<128x128x{element}>", "0.0" if element.startswith("f") else "0"
    return f"""func.func @{element}(%x: {kind}, %y: {kind}) -> {kind} {{
  %z = arith.constant {zero} : {element}
  %e = tensor.empty() : {kind}
  %f = linalg.fill ins(%z : {element}) outs(%e : {kind}) -> {kind}
  %m = linalg.matmul ins(%x, %y : {kind}, {kind}) outs(%f : {kind}) -> {kind}
  return %m : {kind}
}}
"""
