"""`doit explain` shows why a case would run or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dispatchflow import units
from dispatchflow.cli.commands._base import QueryCommand, print_skips
from dispatchflow.engine import site_states
from dispatchflow.engine.actions import Action
from dispatchflow.engine.state import CaseState
from dispatchflow.errors import SpecError, plain
from dispatchflow.iree import command_lines
from dispatchflow.project import case_folder
from dispatchflow.project.workspace import Workspace
from dispatchflow.reports import table
from dispatchflow.results.rows import dispatches
from dispatchflow.stages import SITES, STAGES
from dispatchflow.tools import processes
from dispatchflow.tools.toolchain import environment_of


class ExplainCommand(QueryCommand):
    name = "explain"
    page = "docs/caching.md"
    doc_purpose = (
        "show why a case would run or not: the inputs of each stage, what changed in them, and the case's files and "
        "commands; usage: doit explain profile:CASE"
    )

    def execute(self, params: Any, args: list[str]) -> int:
        if not args:
            raise SpecError(
                "explain needs a case",
                {"form": "doit explain profile:CASE"},
                "doit list --all profile shows every name.",
            )
        workspace = self.app.workspace()
        selection = self.app.select(workspace, args, self.app.foreign())
        if own := [name for name in selection.foreign if name in args or not selection.cases]:
            hint = "doit plan shows which cases it depends on."
            raise SpecError(f"'{own[0]}' is a task of your own", {"form": "doit explain profile:CASE"}, hint)
        workspace.resolver.asked_to_measure = selection.measured
        workspace.resolver.asked_for_sites = selection.cases.get(SITES, ())
        for case in selection.last_stage():
            # The name of a user's function or file, or a flag, may have any character.
            print(plain("\n".join(_explained(workspace, workspace.resolver.chain(case)))))
        if not selection.last_stage():
            print_skips(selection.skips)
        return 0


def _explained(workspace: Workspace, chain: CaseState) -> Iterator[str]:
    records = workspace.store.records
    latest = records.latest(chain.case.name)
    yield chain.case.name
    for stage in (*STAGES, SITES) if chain.sites else STAGES:
        step = chain[stage]
        yield f"\n{stage}: {'would run' if step.pending else step.state}: {step.why}"
        if chain.known is not None and step is chain.failure:
            yield f"  known failure: {chain.known.reason} ({chain.known.place})"
        for title, action in _actions(chain, stage):
            yield f"  {title}  {action.key}"
            before = _ingredients_before(workspace, latest.get(stage), stage)
            for name, value in action.ingredients.items():
                yield f"  {name:<11} {_short(value)}"
                if before is not None and _as_json(before.get(name)) != _as_json(value):
                    was = _difference(before.get(name), value)
                    yield f"  {'':<11} CHANGED since the last record of this name: was {was}"
    if found := dispatches(chain):
        yield "\ndispatches, with the time of all their executions in one call:"
        cells = [[name, units.nanoseconds(ns) if ns else "-", text] for name, text, ns in found]
        yield from (f"  {line}" for line in table.aligned(cells, (False, True, False)).splitlines())
    yield from _artifacts(workspace, chain)


def _actions(chain: CaseState, stage: str) -> Iterator[tuple[str, Action]]:
    """Yield (title, action) for each action of a stage. An action is one step, such as a compile.

    Actions whose keys are not yet known are left out. The stage `sites` has two actions: one finds the sites, the other
    measures them."""
    action, tracing = chain[stage].action, site_states.provenance_of(chain) if stage == SITES else None
    if tracing is not None:
        yield "key of the provenance", tracing
    if action is not None and (tracing is None or action.key != tracing.key):
        yield "key of the times" if tracing else "key", action


def _ingredients_before(workspace: Workspace, key: Any, stage: str) -> Mapping[str, Any] | None:
    if key is None:
        return None
    found = workspace.store.records.measurement(key) if stage == "profile" else workspace.store.records.get(key)
    return found.ingredients if found else None


def _as_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _as_json(item) for name, item in value.items()}
    return [_as_json(item) for item in value] if isinstance(value, list | tuple) else value


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_short(item)}" for name, item in value.items()) or "none"
    if isinstance(value, list | tuple):
        return " ".join(map(_short, value))
    text = str(value)
    # 400 characters hold a GPU's configuration. A longer text, such as a library's Python program, is cut.
    return text if len(text) <= 400 else f"{text[:300]}… ({len(text)} characters)"


def _difference(old: Any, new: Any) -> str:
    """Return a text that says how an ingredient's old value differs from its new value.

    An ingredient is one of the values from which a stage's key is computed."""
    old, new = _as_json(old), _as_json(new)
    if isinstance(old, list) and isinstance(new, list):
        gone, come = [x for x in old if x not in new], [x for x in new if x not in old]
        return f"without {_short(come)}, with {_short(gone)}"
    if isinstance(old, dict) and isinstance(new, dict):
        return _short({name: item for name, item in old.items() if new.get(name) != item})
    return _short(old)


def _artifacts(workspace: Workspace, chain: CaseState) -> Iterator[str]:
    links = case_folder.links(chain, workspace.resolver)
    if not links:
        yield "\nnothing is built yet"
        return
    place = workspace.view_path / chain.case.name
    shown = all((place / name).resolve() == workspace.store.path(digest).resolve() for name, digest in links.items())
    yield f"\nartifacts, also in {place}:" if shown else "\nartifacts:"
    width = max(map(len, links))
    yield from (f"  {name:<{width}}  {workspace.store.path(digest)}" for name, digest in sorted(links.items()))
    if not shown:
        yield f"\n{place} does not show this state; a run with the same words updates it, with the commands by hand"
        return
    yield "\nby hand (repro.sh in that directory has the same):"
    seen = environment_of(workspace.toolchain, workspace.resolver.environment)
    folder = processes.quoted([str(place)])
    for name, argv in case_folder.by_hand(chain, workspace.resolver).items():
        # The compiler runs in an empty directory. In build/CASE, it would write through a link into the store.
        compiles = name == "compile"
        inside, given = ('"$(mktemp -d)"', f" < {folder}/module.mlir") if compiles else (folder, "")
        environment = processes.spelled(seen | command_lines.COMPILING if compiles else seen)
        yield f"  {name}: cd {inside} && {environment} {processes.quoted(argv)}{given}"
