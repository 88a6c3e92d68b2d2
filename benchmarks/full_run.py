"""Benchmark complete runs: their time outside IREE's tools, their noisy cases, and the store's size.

IREE's tools are the compiler, the runtime and the benchmark tool."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.synthetic import DODO
from benchmarks.timing import DOIT, CommandLine, Cost, pairs, run, wall_s
from dispatchflow.iree import command_lines
from dispatchflow.project.workspace import Workspace
from dispatchflow.stages import STAGES
from dispatchflow.tools import processes

_OBSERVED = (sys.executable, os.fspath(Path(__file__).with_name("traced_doit.py")))


def _project(root: Path, cases: int) -> Path:
    """Set up a project that has no results yet.

    `cases` is the number of its cases, which are matrix products of different shapes. The project's store contains
    only what dispatchflow found out about the machine and about the IREE compiler."""
    (root / "specs").mkdir(parents=True)
    (root / "dodo.py").write_text(DODO)
    sweep = f'operation = "matmul"\nm = "32:{32 * cases}:32"\nn = 128\nk = 128\nthreads = 1\n'
    (root / "specs/generated.toml").write_text(f"[[sweep]]\n{sweep}")
    workspace = Workspace(root, {})
    assert workspace.toolchain
    assert workspace.resolver.host
    workspace.close()
    return root


def cold(folder: Path, cases: int, count: int) -> Iterator[CommandLine]:
    """Compare the time of `doit -n 2 'compile:*'` with that of bare compiler calls (`xargs -P2`).

    Both commands compile the same modules with the same flags. doit begins with a store without compiled modules. Each
    command is run `count` times."""
    project, modules = _project(folder / "cold", cases), folder / "modules"
    shutil.copytree(project / ".dispatchflow", folder / "empty")
    workspace = Workspace(project, {})
    compiler, flags = workspace.toolchain.compiler, workspace.resolver.flags(workspace.plan.cases[0])
    modules.mkdir()
    for number, case in enumerate(workspace.plan.cases):
        (modules / f"{number}.mlir").write_text(case.dispatch.module())
    line = processes.quoted(command_lines.compile_argv(compiler, flags))
    (folder / "names").write_text("\n".join(map(str, range(cases))))
    script = f'mkdir "$1" && cd "$1" && exec {line} < "../$1.mlir"'
    xargs = (shutil.which("xargs") or "xargs", "-P2", "-I{}", "sh", "-c", script, "sh", "{}")

    def ours() -> Cost:
        for made in (".dispatchflow", "build"):
            shutil.rmtree(project / made, ignore_errors=True)
        shutil.copytree(folder / "empty", project / ".dispatchflow")
        return run((*DOIT, "-n", "2", "compile:*"), project)

    def theirs() -> Cost:
        for made in modules.glob("*/"):
            shutil.rmtree(made)
        env = {**workspace.resolver.environment, "PATH": os.environ["PATH"]}
        return run(xargs, modules, stdin=os.fspath(folder / "names"), env=env)

    mine, other, ratio = pairs(ours, theirs, count)
    yield CommandLine(
        f"cold compile of {cases} cases, -n 2", f"{wall_s(mine):.2f} s",
        f"xargs -P2 of the bare compiler: {wall_s(other):.2f} s", ratio, "≤ 1.10", ratio <= 1.10,
    )  # fmt: skip


def full(folder: Path, cases: int, protocol: str) -> Iterator[CommandLine]:
    """Run all stages of projects that have no results yet, and yield lines of the benchmarks' table.

    One project is run stage by stage, to show dispatchflow's own CPU time in each stage. A second project is run
    by one command, to show the share of time outside IREE's tools."""
    project = _project(folder / "stages", cases)
    before = _observed(project, folder, "plan")["own_cpu_s"]
    for stage in STAGES:
        note = _observed(project, folder, f"{stage}:*", f"protocol={protocol}")
        own_ms = (note["own_cpu_s"] - before) / cases * 1e3
        outside_ms = (note["wall_s"] - note["tools_s"]) / cases * 1e3
        what = f"our own CPU time, {stage}, a case (of {cases}; less that of doit plan)"
        yield CommandLine(what, f"{own_ms:.1f} ms", f"wall time outside tools, start and all: {outside_ms:.1f} ms")
    project = _project(folder / "full", cases)
    note = _observed(project, folder, "profile:*", f"protocol={protocol}")
    share = 1 - note["tools_s"] / note["wall_s"]
    what = f"share of a run outside compiler, runtime and blocks; {cases} cases, {protocol}"
    ours, everything = f"{note['wall_s'] - note['tools_s']:.2f} s", f"all of it: {note['wall_s']:.2f} s"
    yield CommandLine(what, ours, everything, share, "≤ 10 %", share <= 0.1)
    yield from _measurements(project, protocol)
    yield from _space(project, cases)


def _observed(project: Path, folder: Path, *words: str) -> Mapping[str, Any]:
    note = folder / "note.json"
    run((*_OBSERVED, os.fspath(note), *words), project)
    found: dict[str, Any] = json.loads(note.read_text())
    return found


def _measurements(project: Path, protocol: str) -> Iterator[CommandLine]:
    with sqlite3.connect(project / ".dispatchflow/records.sqlite") as database:
        query = (
            "select status, count(*), sum(cost_s) from measurement join block on measurement = measurement.id "
            "where ingredients like ? group by measurement.id"  # calibrations have another protocol
        )
        rows = database.execute(query, (f'%"protocol": "{protocol}-%',)).fetchall()
    calm = [row for row in rows if row[0] == "measured"]
    blocks, seconds = (sorted(row[column] for row in rows) for column in (1, 2))
    yield CommandLine(
        f"cases under {protocol} that are not noisy",
        f"{len(calm)} of {len(rows)}",
        f"blocks: {blocks[0]}, median {median(blocks):g}, {blocks[-1]}; "
        f"seconds: {seconds[0]:.1f}, median {median(seconds):.1f}, {seconds[-1]:.1f}",
    )


def _space(project: Path, cases: int) -> Iterator[CommandLine]:
    store = project / ".dispatchflow"
    sizes = {
        part: sum(path.stat().st_blocks * 512 for path in store.glob(pattern) if path.is_file())
        for part, pattern in {"objects": "objects/**/*", "records": "records.sqlite*", "Parquet": "results/*"}.items()
    }
    shares = ", ".join(f"{part} {size / cases / 1e3:.0f} kB" for part, size in sizes.items())
    yield CommandLine("store, a case", f"{sum(sizes.values()) / cases / 1e3:.0f} kB on disk", shares)
