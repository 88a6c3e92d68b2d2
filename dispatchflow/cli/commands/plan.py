"""`doit plan` counts the pending stages, and estimates their time from the times of earlier runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from dispatchflow import units
from dispatchflow.cases.case import Case
from dispatchflow.cli.command_line import JOBS
from dispatchflow.cli.commands._base import QueryCommand
from dispatchflow.cli.selection import Selection
from dispatchflow.engine.state import CaseState, StageState
from dispatchflow.measurement.controls import questions
from dispatchflow.project import dodo_file
from dispatchflow.project.workspace import Workspace
from dispatchflow.stages import MEASURED, NAMED, SITES, STAGES
from dispatchflow.tools.machine import cores


class PlanCommand(QueryCommand):
    name = "plan"
    page = "docs/caching.md"
    doc_purpose = "dry run: show what a run would do, why, and about how long it would take"
    cmd_options = (JOBS,)

    def execute(self, params: Any, args: list[str]) -> int:
        workspace, own = self.app.workspace(), self.app.foreign()
        words = args or dodo_file.default_words(self.app.names)
        selection = self.app.to_make(workspace, words, own)
        print("\n".join(_plan(workspace, selection, params["jobs"] or len(cores()))))
        if selection.foreign:
            print(f"then your own tasks: {', '.join(selection.foreign)}")
        return 0


def _plan(workspace: Workspace, selection: Selection, jobs: int) -> Iterator[str]:
    protocol = workspace.settings.protocol
    costs = workspace.store.records.costs(protocol.id)
    last = selection.last_stage()
    workspace.resolver.asked_to_measure = selection.measured
    workspace.resolver.asked_for_sites = selection.cases.get(SITES, ())
    chains = workspace.chains(list(last))
    wanted = [(chain, NAMED.index(stage)) for chain, stage in zip(chains, last.values(), strict=True)]
    total_s, unknown = 0.0, []
    stages = NAMED if selection.cases.get(SITES) else STAGES
    for number, stage in enumerate(stages):
        steps = [chain[stage] for chain, furthest in wanted if number <= furthest]
        pending = {step.key or index: step for index, step in enumerate(steps) if step.pending}
        yield f"{stage:<8} {len(pending)} of {len(steps)} to run"
        for why, count in Counter(step.why for step in pending.values()).most_common(10):
            yield f"           {count}: {why}"
        unmade = Counter(_reason_not_made(chain, chain[stage]) for chain, furthest in wanted if number <= furthest)
        said = Counter({why: count for why, count in unmade.items() if why})
        yield from (f"           {count}: {why}" for why, count in said.most_common(10))
        workers = 1 if stage in MEASURED else jobs
        if pending and stage in costs:
            spent_s = len(pending) * costs[stage] / workers
            total_s += max(spent_s, protocol.span_s) if stage == "profile" else spent_s
        elif pending:
            unknown.append(stage)
    for reason, count in Counter(skip.reason for skip in selection.skips).most_common(10):
        yield f"skipped  {count}: {reason}"
    yield from _controls(workspace, last)
    yield from (f"note: {note}" for note in workspace.plan.notes)
    if not any(chain[stage].pending for chain, furthest in wanted for stage in NAMED[: furthest + 1]):
        yield "nothing to run"
        return
    why = f"no earlier run used protocol {protocol.id}" if unknown == ["profile"] else "no earlier run recorded a time"
    never = f"no estimate for {', '.join(unknown)}: {why}" if unknown else ""
    if never and not total_s:
        yield never
        return
    yield f"about {units.seconds(total_s)} with -n {jobs}" + (f"; {never}" if never else "")


def _reason_not_made(chain: CaseState, step: StageState) -> str | None:
    if chain.known is not None and step.state in ("failed", "blocked"):
        return f"known failure: {chain.known.reason}"
    return f"not run: {step.why}" if step.state in ("failed", "blocked", "absent") else None


def _controls(workspace: Workspace, last: Mapping[Case, str]) -> Iterator[str]:
    resolver = workspace.resolver
    block_s = resolver.settings.protocol.block_s
    reused = [chain for case, chain in resolver.unjudged.items() if last.get(case) in MEASURED]
    for group, chosen in questions(reused, resolver.reuse.judged, block_s, workspace.run):
        why = f"{units.count(len(group), 'case')} on {group[0].device.uri} would reuse another runtime's measurements"
        yield f"controls {len(chosen)} to measure: {why}"
