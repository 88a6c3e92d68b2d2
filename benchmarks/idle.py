"""Runs that make nothing, against ninja on the same graph where ninja has such a thing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks import ninja, synthetic
from benchmarks.timing import DISPATCHFLOW, DOIT, Cost, Line, pairs, peak_bytes, run, wall_s
from dispatchflow.workspace import Workspace

BARS = {1_000: "", 10_000: "≤ 0.5 s, ≤ 2.5 ×, ≤ 150 MB", 100_000: ""}


def noop(folder: Path, cases: int, count: int) -> Iterator[Line]:
    """`profile:*`, nothing to do."""
    project = synthetic.project(folder / f"{cases}", cases)
    graph = ninja.project(folder / f"{cases}-ninja", Workspace(project, {}))

    def ours(command: Sequence[str] = DOIT) -> Cost:
        cost = run((*command, "profile:*"), project)
        assert "nothing made" in cost.out, cost.out
        return cost

    def theirs() -> Cost:
        cost = run((ninja.NINJA,), graph)
        assert "no work to do" in cost.out, cost.out
        return cost

    def anew() -> Cost:
        with next((project / "specs").iterdir()).open("a") as spec:
            spec.write("# a comment\n")
        return ours()

    what = f"{cases:,} cases, nothing to do"
    ways: dict[str, Callable[[], Cost]] = {
        "`dispatchflow` again": lambda: ours(DISPATCHFLOW),
        "`doit` again": ours,
        "`doit`, the spec has a comment more": anew,
    }
    for when, run_ours in ways.items():
        for _ in range(2):  # what the system keeps is warm; the answer of an idle run is kept
            run_ours(), theirs()
        mine, other, ratio = pairs(run_ours, theirs, count)
        yield Line(
            f"{what}, {when}",
            f"{wall_s(mine):.3f} s, {peak_bytes(mine) / 1e6:.0f} MB",
            f"ninja: {wall_s(other):.3f} s, {peak_bytes(other) / 1e6:.0f} MB",
            ratio,
            BARS.get(cases, ""),
        )


def looks(folder: Path, cases: int, count: int) -> Iterator[Line]:
    """What else makes nothing, beside the start of stock doit."""
    project = folder / f"{cases}"
    if not project.exists():
        synthetic.project(project, cases)
    name = Workspace(project, {}).plan.cases[cases // 2].name

    def stock() -> Cost:
        return run((*DOIT, "--version"), folder)

    words = {
        f"one case of {cases:,}, nothing to do": ((f"profile:{name}",), "≤ 0.3 s"),
        f"doit list, {cases:,} cases": (("list",), ""),
        f"doit list --all profile, {cases:,} cases": (("list", "--all", "profile"), ""),
        f"doit plan, {cases:,} cases": (("plan",), ""),
    }
    for what, (argv, bar) in words.items():
        mine, other, ratio = pairs(lambda argv=argv: run((*DOIT, *argv), project), stock, count)  # type: ignore[misc]
        yield Line(what, f"{wall_s(mine):.3f} s", f"doit --version: {wall_s(other):.3f} s", ratio, bar)
