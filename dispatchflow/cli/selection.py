"""Find the cases, skips (impossible combinations) and tasks that a command line selects.

The doit tasks that execute stages are created later (`case_tasks`), and only for pending stages. Creating a task takes
longer than checking whether a stage is up to date."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from doit import loader as doit_loader
from doit.task import Task

from dispatchflow.cases.case import Case
from dispatchflow.errors import NothingMatched, SpecError, suggestion
from dispatchflow.planning.patterns import is_pattern, matches
from dispatchflow.planning.plan import Plan, Skip
from dispatchflow.project.dodo_file import task_names
from dispatchflow.stages import MEASURED, NAMED, STAGES, cases_named


@dataclass
class Selection:
    """The result of `select`."""

    cases: dict[str, dict[Case, None]] = field(default_factory=dict)
    """A dict from stage to the cases that are selected for it. The inner dict is an ordered set of cases."""
    skips: dict[Skip, None] = field(default_factory=dict)
    foreign: list[str] = field(default_factory=list)
    """The names of the selected tasks that the user has defined."""

    def last_stage(self) -> dict[Case, str]:
        """Return the last selected stage of each case."""
        return {case: stage for stage in NAMED for case in self.cases.get(stage, ())}

    @property
    def measured(self) -> dict[Case, None]:
        return {case: None for stage in MEASURED for case in self.cases.get(stage, ())}


def select(words: Sequence[str], plan: Plan, foreign: Sequence[str], commands: Sequence[str]) -> Selection:
    """Return the selection that the words of a command line describe.

    Without words, all cases are selected for the stage `profile`. `foreign` has the names of the user's own tasks.

    Raises:
        NothingMatched: a pattern matches nothing, or a word `STAGE:CASE` names neither a case nor a skip.
        SpecError: a word is neither a stage nor a task, or it is a command but not the first word.
    """
    found = Selection()
    names = {case.name: case for case in plan.cases}
    for word in words or ["profile"]:
        if (named := cases_named(word)) is not None:
            stage, pattern = named
            cases = _matching(pattern, names)
            skips = [skip for skip in plan.skips if matches(skip.name, pattern)]
            if not cases and not skips:
                raise _nothing(word, pattern, plan)
            found.cases.setdefault(stage, {}).update(dict.fromkeys(cases))
            found.skips.update(dict.fromkeys(skips))
            continue
        known = [*STAGES, *foreign]
        matched = [name for name in known if matches(name, word)]
        if not matched:
            facts = {
                "stages": ", ".join(NAMED),
                "commands": ", ".join(commands),
                "other tasks": ", ".join(foreign) or "none",
            }
            if word in commands:
                others = [f"'{each}'" for each in words if each != word]
                hint = f"Write {' '.join(['doit', word, *others])}."
                raise SpecError(f"'{word}' is a command, and must be the first word", {}, hint)
            error = NothingMatched if is_pattern(word) else SpecError
            problem = f"nothing matches '{word}'" if is_pattern(word) else f"'{word}' is not a task"
            raise error(
                problem,
                facts,
                suggestion(word, [*NAMED, *foreign, *commands])
                or "Cases are selected as STAGE:CASE; see doit list --all profile.",
            )
        for name in matched:
            if name in STAGES:
                found.cases.setdefault(name, {}).update(dict.fromkeys(plan.cases))
                found.skips.update(dict.fromkeys(plan.skips))
            else:
                found.foreign.append(name)
    return found


def with_dependencies(selection: Selection, own: Sequence[Task], plan: Plan) -> Selection:
    """Add to a selection the cases and skips on which the user's selected tasks depend.

    Indirect dependencies, through other tasks of the user, are included."""
    tasks, waiting, seen = {task.name: task for task in own}, list(selection.foreign), set(selection.foreign)
    while waiting:
        task = tasks[waiting.pop()]
        for word in (*task.task_dep, *task.wild_dep, *task.setup_tasks):
            if word.partition(":")[0] in NAMED:
                named = select([word], plan, (), ())
                selection.skips.update(named.skips)
                for stage, cases in named.cases.items():
                    selection.cases.setdefault(stage, {}).update(cases)
            found = {name for name in tasks if matches(name, word)} - seen
            waiting += found
            seen |= found
    return selection


def _matching(pattern: str, names: dict[str, Case]) -> list[Case]:
    if not is_pattern(pattern):
        return [names[pattern]] if pattern in names else []
    return [case for name, case in names.items() if matches(name, pattern)]


def _nothing(word: str, pattern: str, plan: Plan) -> NothingMatched:
    facts: dict[str, object] = {"cases": f"{len(plan.cases)} in the plan"}
    if not plan.cases:
        empty = (
            "The specs have no [[sweep]], or its include and exclude leave nothing; doit m=512 n=512 k=512 needs none."
        )
        hint = "doit list skipped shows why." if plan.skips else empty
        return NothingMatched(f"nothing matches '{word}'", facts, hint)
    facts["for example"] = plan.cases[0].name
    hint = suggestion(pattern, [case.name for case in plan.cases[:1000]])
    return NothingMatched(f"nothing matches '{word}'", facts, hint or "doit list --all profile shows every case.")


def foreign_tasks(names: dict[str, Any], commands: Sequence[str]) -> list[Task]:
    """Load the tasks of the user's own `task_*` functions.

    `names` is a dict of the names that dodo.py defines. A task must not have a name in `commands`."""
    if not task_names(names):
        return []
    tasks: list[Task] = doit_loader.load_tasks(names, [*NAMED, *commands], allow_delayed=False)
    return tasks
