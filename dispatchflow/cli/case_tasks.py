"""Make doit tasks, one for each stage of a case: `emit:CASE`, `compile:CASE`, …

A task depends on the task of the case's previous stage. docs/decisions/0003 says why this dependency is declared
with `task_dep` only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from doit.task import Task

from dispatchflow.cases.rotating_inputs import HOT
from dispatchflow.cli.selection import Selection
from dispatchflow.cli.stage_tasks import StageTasks
from dispatchflow.engine.state import CaseState
from dispatchflow.stages import MEASURED, NAMED, SITES

STAGE_DOCS = {
    "emit": "write each case's MLIR module",
    "compile": "compile each module; record the kernel and the tile sizes that the compiler chose",
    "verify": "run each module on several sets of inputs; compare the results with numpy's "
    "(for your own module: with the reference that its spec names)",
    "profile": "measure each module whose results are not wrong; print a table, append rows to Parquet",
    SITES: "show the operations that each dispatch of a program computes, and the time that it takes",
}

STAGE_PAGES = {
    "emit": "docs/caching.md",
    "compile": "docs/caching.md",
    "verify": "docs/verification.md",
    "profile": "docs/measurement.md",
    SITES: "docs/models.md",
}
"""The page of the documentation that describes each stage."""


def empty_tasks(selection: Selection, made: Sequence[Task]) -> list[Task]:
    """Return tasks that execute nothing, on which the user's own tasks may depend.

    There is a group task for each stage, and a task for each selected `STAGE:CASE` that is up to date. `made` has the
    tasks of the stages that are not up to date."""
    names = {task.name for task in made}
    rest = [(stage, case.name) for stage, cases in selection.cases.items() for case in cases]
    empty = [Task(f"{stage}:{name}", None, subtask_of=stage) for stage, name in rest if f"{stage}:{name}" not in names]
    groups = [Task(stage, None, has_subtask=True, doc=STAGE_DOCS[stage]) for stage in NAMED]
    for group in groups:
        group.task_dep += [task.name for task in (*made, *empty) if task.subtask_of == group.name]
    return [*groups, *empty]


def tasks_of(
    stages: StageTasks, chain: CaseState, wanted: Sequence[str], twins: dict[tuple[Any, ...], str]
) -> list[Task]:
    """Return a task for each of the wanted stages of one case, in the order of the stages.

    If several cases have the same cache key in a stage, the tasks of the later cases depend on the task of the first
    case. Measuring stages are an exception. `twins` maps (stage, key) to the name of this first task. This function
    adds its tasks to `twins`."""
    case, tasks = chain.case, list[Task]()
    for stage in wanted:
        name = f"{stage}:{case.name}"
        key: tuple[Any, ...] = (stage, chain[stage].key)
        if stage == "compile" and chain[stage].key is None:  # unknown until `emit` has printed the module
            key = (stage, chain["emit"].key, *stages.workspace.resolver.flags(case))
        if stage == "verify" and chain[stage].key is None:  # cases that differ only in `cache` share one verification
            key = (stage, replace(case, cache=HOT).name)
        deps = [tasks[-1].name] if tasks else []
        # Without a dependency on the first task, a worker thread would wait for the lock that this task holds.
        first = twins.setdefault(key, name) if key[1] is not None and stage not in MEASURED else name
        meta: dict[str, Any] = {"stage": stage}
        tasks.append(
            Task(
                name,
                [(stages.run, [stage, case])],
                task_dep=deps + ([first] if first != name else []),
                uptodate=[(stages.done, [stage, case])],
                subtask_of=stage,
                io={"capture": False},
                meta=meta | ({"exclusive": case} if stage in MEASURED else {}),
            )
        )
    return tasks
