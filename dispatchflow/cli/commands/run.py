"""`doit run` executes pending stages as doit tasks, then reports all selected cases."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from doit.cmd_run import Run as DoitRun
from doit.control import TaskControl
from doit.dependency import Dependency
from doit.reporter import ConsoleReporter
from doit.task import Stream, Task

from dispatchflow import units
from dispatchflow.cases.case import Case
from dispatchflow.cli import case_tasks, output, sites
from dispatchflow.cli.command_line import JOBS
from dispatchflow.cli.doit_runner import ExclusiveRunner
from dispatchflow.cli.invocation import Invocation
from dispatchflow.cli.progress import Progress
from dispatchflow.cli.selection import Selection
from dispatchflow.cli.stage_tasks import StageTasks
from dispatchflow.engine.state import CaseState
from dispatchflow.errors import NothingMatched
from dispatchflow.planning.plan import Skip
from dispatchflow.project import dodo_file
from dispatchflow.reports import summary as run_report
from dispatchflow.reports import verdicts
from dispatchflow.stages import MEASURED, NAMED, SITES
from dispatchflow.tools.machine import cores


class RunCommand(DoitRun):  # type: ignore[misc]
    """Replaces doit's own command `run`."""

    name = "run"
    page = "docs/specs.md"
    groups = ("cases", "run")
    doc_purpose = "build and measure what is missing, print all results"
    cmd_options = (JOBS,)
    base_options = ()

    def get_backends(self) -> dict[str, Any]:
        return {}

    def get_reporters(self) -> dict[str, Any]:
        return {}

    def execute(self, params: Any, args: list[str]) -> int:
        app: Invocation = self.loader.app
        words = args or dodo_file.default_words(app.names)
        workspace = app.workspace(("cases", "run", *(sites.VARIABLES if sites.requested(words) else ())))
        own = app.foreign()
        selection = app.to_make(workspace, words, own)
        if not selection.cases and not selection.foreign:
            raise NothingMatched(
                "the specs have no cases", {"specs": workspace.root / "specs", "skipped": len(workspace.plan.skips)}
            )
        workspace.store.users.join(lambda _: workspace.say("waits until `doit store clean` is done"))
        last = selection.last_stage()
        workspace.resolver.asked_to_measure = selection.measured
        workspace.resolver.asked_for_sites = selection.cases.get(SITES, ())
        chains = workspace.chains(list(last))
        pending = [(c, wanted) for c, stage in zip(chains, last.values(), strict=True) if (wanted := c.pending(stage))]
        totals = {stage: sum(stage in wanted for _, wanted in pending) for stage in NAMED}
        with Progress(totals) as progress:
            stages = StageTasks(workspace, progress)
            failed = False
            if pending or selection.foreign:
                failed = self._make(app, stages, pending, selection, own, params["jobs"] or len(cores()))
            again = stages.check_runtime_drift(last)
            if pending or selection.foreign or again:
                chains = workspace.chains(list(last))
        code, said = _publish_and_report(stages, last, chains, list(selection.skips), failed)
        if stages.refused is not None:
            raise stages.refused
        bare = workspace.values.keys() & {"format", "out"}  # these runs print no duration; a repeated output has one
        if app.recall is not None and not (pending or selection.foreign or again or bare):
            app.recall.keep(code, said)
        return code

    def _make(
        self,
        app: Invocation,
        stages: StageTasks,
        pending: list[tuple[CaseState, list[str]]],
        selection: Selection,
        own: list[Task],
        jobs: int,
    ) -> bool:
        """Let doit execute the pending stages and the selected tasks of the user.

        Returns True if the command must exit with 1."""
        gc.enable()
        twins: dict[tuple[Any, ...], str] = {}
        made = [task for chain, wanted in pending for task in case_tasks.tasks_of(stages, chain, wanted, twins)]
        foreign = [*case_tasks.empty_tasks(selection, made), *own] if selection.foreign else []
        control = TaskControl([*made, *foreign])
        control.process([task.name for task in made] + selection.foreign)
        # Stages find their results in the store. Only a user's own tasks need doit's database, in the usual file.
        config = dodo_file.config(app.names) if foreign else {"backend": "sqlite3", "dep_file": ":memory:"}
        database = DoitRun(task_loader=self.loader).get_backends()[config.get("backend", "dbm")]
        self.dep_manager = Dependency(database, config.get("dep_file", ".doit.db"))
        reporter, stream = Reporter(sys.stdout, {}), Stream(config.get("verbosity"))
        runner = ExclusiveRunner(self.dep_manager, reporter, True, False, stream, jobs)
        runner.prepare = stages.prepare
        runner.stopped = lambda: stages.stopped
        runner.publish = lambda: _publish_before_own_task(stages, selection.last_stage())
        code: int = runner.run_all(control.task_dispatcher())
        if stages.stopped is not None:
            raise stages.stopped
        # Without tasks of the user, doit's exit code tells only of failed stages, which the rows report later.
        return (bool(foreign) and code != 0) or reporter.broken


class Reporter(ConsoleReporter):  # type: ignore[misc]
    """Reports the user's own tasks, and each stage in which dispatchflow raised an exception.

    `Progress` reports the other stages of cases."""

    broken = False
    """True if dispatchflow raised an exception in a stage of a case."""

    def execute_task(self, task: Task) -> None:
        if not _is_ours(task):
            super().execute_task(task)

    def skip_uptodate(self, task: Task) -> None:
        if not _is_ours(task):
            super().skip_uptodate(task)

    def add_failure(self, task: Task, fail: Any) -> None:
        # `Progress` reports a failed stage; doit reports a stage only if dispatchflow raised an exception in it.
        broken = _is_ours(task) and bool(getattr(fail, "traceback", None))
        self.broken |= broken
        if broken or not _is_ours(task):
            super().add_failure(task, fail)


def _is_ours(task: Task) -> bool:
    return bool(task.meta and "stage" in task.meta) or task.name in NAMED


def _publish_before_own_task(stages: StageTasks, last: Mapping[Case, str]) -> None:
    """Write the rows of results to Parquet, where the user's next task may read them."""
    stages.check_runtime_drift(last)
    stages.publish(last, stages.workspace.chains(list(last)))


def _publish_and_report(
    stages: StageTasks, last: Mapping[Case, str], chains: Sequence[CaseState], skips: Sequence[Skip], failed: bool
) -> tuple[int, str]:
    """Write the rows of results to Parquet, and print the results and the summary of a run.

    Return the exit code and the printed text, without the duration that is printed at the end."""
    workspace = stages.workspace
    if not last and not skips:
        return int(failed), ""
    rows = stages.publish(last, chains)
    measured = {case.name for case, trial in stages.trials.items() if not trial.adopted}
    stale = {
        row.chain.case.name: trial.reason or "failed"
        for row in rows
        if (trial := stages.trials.get(row.chain.case)) is not None
        if trial.outcome == "failed" and row.status in ("measured", "noisy", "suspect")
    }
    wanted = [row for row, stage in zip(rows, last.values(), strict=True) if stage in MEASURED]
    # No record says that a file has no such function: each run finds this again, so it is no failure of an earlier run.
    found = {chain.case.name for chain in chains if chain["compile"].state == "failed" and not chain["compile"].action}
    made = {case.name for case in stages.made} | found
    table = run_report.table(wanted, measured, stale)
    asked = {case.name: stage for case, stage in last.items()}
    fixed = {
        row.chain.case.name: entry.reason
        for row in rows
        if row.chain.failure is None
        if (entry := workspace.resolver.known.passing(row.chain.case, row.chain.made))
    }
    summary = run_report.summary(
        stages.progress.made, made, rows, skips, workspace.plan.notes, len(stages.progress.failures),
        stages.broken, asked, fixed, stale,
    )  # fmt: skip
    verified = [chain for chain in chains if last[chain.case] == "verify"]
    said = (table and f"{table}\n") + verdicts.before_last_line(summary, verified)
    untraced = sites.failures(chains)
    if any(chain.sites for chain in chains):
        tables = sites.text(workspace, chains)
        if "out" in workspace.values:
            output.to_file(tables, workspace.values["out"])
        elif "format" in workspace.values:
            output.say_last(tables)
        else:
            said = f"{tables}\n\n{said}"
    if not workspace.values.keys() & {"format", "out"}:
        output.say_last(said + units.seconds(time.monotonic() - workspace.began_monotonic))
    strict = bool(fixed) and workspace.values.get("known_failures") == "strict"
    return int(failed or strict or bool(stale) or bool(untraced) or any(row.status == "failed" for row in rows)), said
