"""Cases → doit tasks: `emit:NAME` → `compile:NAME` → `verify:NAME` → `profile:NAME`.

Order is task_dep, never file_dep or targets: doit would compare paths with the last run of this name and rerun what
the store already has (docs/decisions/0003).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from doit.task import Task

from dispatchflow import view
from dispatchflow.actions import STAGES
from dispatchflow.chain import Chain
from dispatchflow.dispatch import Case
from dispatchflow.loader import Selection
from dispatchflow.measure import Session, Trial
from dispatchflow.progress import Progress
from dispatchflow.workspace import Workspace

STAGE_DOCS = {
    "emit": "write each case's MLIR module",
    "compile": "compile each module; read back what the compiler applied",
    "verify": "run each module on exact and random inputs, compare with numpy",
    "profile": "measure each verified module; print a table, append rows to Parquet",
}


class Stages:
    """What the tasks' actions do. Compiles and verifications may run in several threads, blocks in one."""

    def __init__(self, workspace: Workspace, progress: Progress) -> None:
        self.workspace, self.progress = workspace, progress
        self.trials: dict[Case, Trial] = {}
        """The measurements of this invocation."""
        self.touched: dict[Case, None] = {}
        """Cases of which something was made or tried in this invocation."""

    def done(self, stage: str, case: Case) -> bool:
        """doit's `uptodate`: asked after the upstream stages ran, when the key can be known."""
        step = self.workspace.resolver.chain(case)[stage]
        up_to_date = not step.pending
        if up_to_date:
            self.progress.reused(stage, case.name)
        return up_to_date

    def run(self, stage: str, case: Case) -> bool:
        """Execute one stage; False when it failed, which keeps the stages after it from running."""
        self.touched[case] = None
        self.progress.begin(stage, case.name)
        executor = self.workspace.executor
        if stage == "profile":
            return self._profile(case)
        if stage == "verify":
            record = executor.verify(case, self.workspace.resolver.chain(case).device)
        else:
            record = executor.emit(case) if stage == "emit" else executor.compile(case)
        if record is not None and record.run != self.workspace.run:  # another case has the same key, or cutoff
            self.progress.reused(stage, case.name)
        else:
            failure = None if record and record.ok else (record.reason if record else "it did not compile") or "failed"
            self.progress.end(stage, case.name, record.cost_s if record else 0.0, failure)
        return bool(record and record.ok) or (stage == "verify" and self.workspace.settings.verify == "warn")

    def prepare(self, cases: Iterable[Case]) -> None:
        """All pending measurements enter the session before the first block: rounds interleave them."""
        workspace = self.workspace
        self._session = Session(
            workspace.store,
            workspace.toolchain,
            workspace.resolver.environment,
            workspace.lock,
            workspace.run,
            self.progress.block,
        )
        self.trials = {case: trial for case in cases if (trial := self._trial(case)) is not None}
        self.progress.measuring(len({trial.key for trial in self.trials.values()}))
        for device in {trial.device.threads: trial.device for trial in self.trials.values()}.values():
            workspace.ceilings.calibrate(device, self._session)

    def _trial(self, case: Case) -> Trial | None:
        """None when the case cannot be measured, or needs it no more."""
        resolver = self.workspace.resolver
        self.workspace.executor.inputs(case.operation)  # verify=off did not make them
        chain, data = resolver.chain(case), resolver.operands(case.operation)
        action, compiled = chain["profile"].action, chain["compile"].record
        if not chain["profile"].pending or action is None or compiled is None or data is None:
            return None
        types = [operand.type for operand in case.operation.operands()]
        operands = list(zip(types, data["random"], strict=True))
        protocol = self.workspace.settings.protocol
        return self._session.add(
            Trial(action.key, case.name, compiled.outputs["vmfb"], operands, chain.device, action.ingredients, protocol)
        )

    def _profile(self, case: Case) -> bool:
        if (trial := self.trials.get(case)) is None:
            self.progress.reused("profile", case.name)
            return True
        self._session.decide(trial)
        self.progress.end("profile", case.name, trial.spent_s, trial.reason)
        return trial.outcome != "failed"

    def finish(self, chains: Sequence[Chain]) -> None:
        """Views and `explain`'s memory of what was touched."""
        workspace = self.workspace
        for chain in chains:
            if chain.case in self.touched:
                keys = {stage: step.key for stage, step in chain.steps.items() if step.key is not None}
                workspace.store.records.set_latest(chain.case.name, keys)
                view.write(workspace.view_path, workspace.store, workspace.resolver, chain)


def made_already(selection: Selection, made: Sequence[Task]) -> list[Task]:
    """Tasks that do nothing: the stages as groups, and the cases that a user's own tasks may name as dependencies."""
    names = {task.name for task in made}
    rest = [(stage, case.name) for stage, cases in selection.cases.items() for case in cases]
    empty = [Task(f"{stage}:{name}", None, subtask_of=stage) for stage, name in rest if f"{stage}:{name}" not in names]
    groups = [Task(stage, None, has_subtask=True, doc=STAGE_DOCS[stage]) for stage in STAGES]
    for group in groups:
        group.task_dep += [task.name for task in (*made, *empty) if task.subtask_of == group.name]
    return [*groups, *empty]


def tasks_of(
    stages: Stages, case: Case, wanted: Sequence[str], twins: dict[tuple[str, str], str], key: str | None
) -> list[Task]:
    """The tasks of these stages of one case, in order.

    `twins` maps (stage, key) to the task that makes it: a second case with the same key waits for the first instead of
    holding a worker while it waits for a lock.
    """
    tasks: list[Task] = []
    for stage in wanted:
        name = f"{stage}:{case.name}"
        deps = [tasks[-1].name] if tasks else []
        if stage == "compile" and key is not None:
            first = twins.setdefault((stage, key), name)
            deps += [first] if first != name else []
        exclusive: dict[str, Any] = {"exclusive": case} if stage == "profile" else {}
        tasks.append(
            Task(
                name,
                [(stages.run, [stage, case])],
                task_dep=deps,
                uptodate=[(stages.done, [stage, case])],
                subtask_of=stage,
                io={"capture": False},
                meta={"stage": stage, **exclusive},
            )
        )
    return tasks
