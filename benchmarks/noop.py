"""Measure the time of runs in which everything is up to date.

The time is compared with that of ninja, or with the time that doit needs to start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks import ninja, synthetic
from benchmarks.timing import DISPATCHFLOW, DOIT, CommandLine, Cost, pairs, peak_bytes, run, wall_s
from dispatchflow.project.workspace import Workspace

RATIO, WALL_S, PEAK_BYTES, ONE_S = 2.5, 0.5, 150e6, 0.3
"""The limits of the cost of a run in which everything is up to date.

- `RATIO`: dispatchflow's time divided by ninja's
- `WALL_S` and `PEAK_BYTES`: time and memory with 10,000 cases
- `ONE_S`: the time of a command that names one case"""
ANEW_RATIO = 5
"""The limit of dispatchflow's time divided by ninja's, in runs after a change of a spec.

Such a run plans all cases again. The limit applies with 10,000 or more cases."""


def noop(folder: Path, cases: int, count: int) -> Iterator[CommandLine]:
    """Compare the run `profile:*` with a ninja build of the same cases. Everything is up to date in both."""
    project = synthetic.project(folder / f"{cases}", cases)
    graph = ninja.project(folder / f"{cases}-ninja", Workspace(project, {}))

    def ours(command: Sequence[str] = DOIT) -> Cost:
        cost = run((*command, "profile:*"), project)
        assert "up to date" in cost.out, cost.out
        return cost

    def theirs() -> Cost:
        cost = run((ninja.NINJA,), graph)
        assert "no work to do" in cost.out, cost.out
        return cost

    def anew() -> Cost:
        with next((project / "specs").iterdir()).open("a") as spec:
            spec.write("# a comment\n")
        return ours()

    def beside_own() -> Cost:
        if (dodo := project / "dodo.py").read_text() != synthetic.OWN:
            (project / "helper.py").touch()
            dodo.write_text(synthetic.OWN)
            ours()  # the change is planned once, untimed
        return ours()

    what = f"{cases:,} cases, nothing to do"
    ways: dict[str, Callable[[], Cost]] = {
        "`dispatchflow` again": lambda: ours(DISPATCHFLOW),
        "`doit` again": ours,
        "`doit` again, dodo.py has a task of its own": beside_own,
        "`doit`, the spec has a comment more": anew,
    }
    for when, run_ours in ways.items():
        for _ in range(2):  # warms the system's caches; dispatchflow also keeps its answer for idle runs
            run_ours(), theirs()
        mine, other, ratio = pairs(run_ours, theirs, count)
        ours_told, theirs_told = (f"{wall_s(side):.3f} s, {peak_bytes(side) / 1e6:.0f} MB" for side in (mine, other))
        limit = RATIO if run_ours is not anew else ANEW_RATIO if cases >= 10_000 else None
        bar, held = ("", None) if limit is None else (f"≤ {limit:g} ×", ratio <= limit)
        if run_ours is not anew and cases == 10_000:
            bar = f"≤ {WALL_S} s, {bar}, ≤ {PEAK_BYTES / 1e6:.0f} MB"
            held = held and wall_s(mine) <= WALL_S and peak_bytes(mine) <= PEAK_BYTES
        yield CommandLine(f"{what}, {when}", ours_told, f"ninja: {theirs_told}", ratio, bar, held)


def looks(folder: Path, cases: int, count: int) -> Iterator[CommandLine]:
    """Compare commands that execute no tool, such as `doit list`, with the time that doit needs to start."""
    project = folder / f"{cases}"
    if not project.exists():
        synthetic.project(project, cases)
    name = Workspace(project, {}).plan.cases[cases // 2].name

    def stock() -> Cost:
        return run((*DOIT, "--version"), folder)

    words = {
        f"one case of {cases:,}, nothing to do": (f"profile:{name}",),
        f"doit list, {cases:,} cases": ("list",),
        f"doit list --all profile, {cases:,} cases": ("list", "--all", "profile"),
        f"doit plan, {cases:,} cases": ("plan",),
    }
    for what, argv in words.items():
        mine, other, ratio = pairs(lambda argv=argv: run((*DOIT, *argv), project), stock, count)  # type: ignore[misc]
        bar, held = (f"≤ {ONE_S} s", wall_s(mine) <= ONE_S) if what.startswith("one") else ("", None)
        yield CommandLine(what, f"{wall_s(mine):.3f} s", f"doit --version: {wall_s(other):.3f} s", ratio, bar, held)
