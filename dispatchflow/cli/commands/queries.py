"""The commands that look and never make: list, plan, explain, devices, toolchains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from dispatchflow import units
from dispatchflow.cases.dispatch import Case
from dispatchflow.cases.known_failures import KnownFailure
from dispatchflow.cli.selection import Selection
from dispatchflow.engine.state import CaseState, StageState
from dispatchflow.errors import ToolchainError
from dispatchflow.iree import command_lines
from dispatchflow.iree.targets import HINTS, TARGETS
from dispatchflow.measurement.controls import questions
from dispatchflow.project import case_folder
from dispatchflow.project.workspace import Workspace
from dispatchflow.reports import table
from dispatchflow.results.rows import dispatches
from dispatchflow.stages import STAGES
from dispatchflow.tools import processes, toolchain


def cases(workspace: Workspace, selection: Selection, status: bool) -> Iterator[str]:
    """`doit list PATTERN`: a line a case, with what would be made for it when asked."""
    for stage, found in selection.cases.items():
        if not status:
            yield from (f"{stage}:{case.name}" for case in found)
            continue
        for chain in workspace.chains(list(found)):
            pending = chain.pending(stage)
            yield f"{stage}:{chain.case.name}  {'to make: ' + ', '.join(pending) if pending else 'made'}"


def plan(workspace: Workspace, selection: Selection, jobs: int) -> Iterator[str]:
    """`doit plan`: what a run would do, why, and about how long it would take."""
    costs = workspace.store.records.costs()
    last = selection.last_stage()
    chains = workspace.chains(list(last))
    wanted = [(chain, STAGES.index(stage)) for chain, stage in zip(chains, last.values(), strict=True)]
    total_s, unknown = 0.0, []
    for number, stage in enumerate(STAGES):
        steps = [chain[stage] for chain, furthest in wanted if number <= furthest]
        pending = {step.key or index: step for index, step in enumerate(steps) if step.pending}
        yield f"{stage:<8} {len(pending)} to make of {len(steps)}"
        for why, count in Counter(step.why for step in pending.values()).most_common(10):
            yield f"           {count} {why}"
        unmade = Counter(_unmade(chain, chain[stage]) for chain, furthest in wanted if number <= furthest)
        said = Counter({why: count for why, count in unmade.items() if why})
        yield from (f"           {count} {why}" for why, count in said.most_common(10))
        workers = 1 if stage == "profile" else jobs
        if stage in costs:
            total_s += len(pending) * costs[stage] / workers
        elif pending:
            unknown.append(stage)
    for reason, count in Counter(skip.reason for skip in selection.skips).most_common(10):
        yield f"skipped  {count}: {reason}"
    yield from _controls(workspace, last)
    yield from (f"note: {note}" for note in workspace.plan.notes)
    if not any(chain[stage].pending for chain, furthest in wanted for stage in STAGES[: furthest + 1]):
        yield "nothing to make"
        return
    never = f"{', '.join(unknown)}, of which no time is recorded" if unknown else ""
    if never and not total_s:
        yield f"no estimate of {never}"
        return
    yield f"about {units.seconds(total_s)} with -n {jobs}" + (f", and {never}" if never else "")


def _unmade(chain: CaseState, step: StageState) -> str | None:
    """Why a stage is not to be made and never was; None for the others."""
    if chain.known is not None and step.state in ("failed", "blocked"):
        return f"known failure: {chain.known.reason}"
    return f"not: {step.why}" if step.state in ("failed", "blocked", "absent") else None


def _controls(workspace: Workspace, last: Mapping[Case, str]) -> Iterator[str]:
    resolver = workspace.resolver
    block_s = resolver.settings.protocol.block_s
    reused = [chain for case, chain in resolver.unjudged.items() if last.get(case) == "profile"]
    for group, chosen in questions(reused, resolver.judged, block_s, workspace.run):
        why = f"another runtime measured what {units.count(len(group), 'case')} on {group[0].device.uri} reuse"
        yield f"controls {len(chosen)} to measure: {why}"


def explain(workspace: Workspace, chain: CaseState) -> Iterator[str]:
    """`doit explain profile:NAME`: for each stage why it would run or not, what its key is made of and what of that
    changed; where the artifacts are; the commands that repeat it by hand."""
    records = workspace.store.records
    latest = records.latest(chain.case.name)
    yield chain.case.name
    for stage in STAGES:
        step = chain[stage]
        yield f"\n{stage}: {'would run' if step.pending else step.state}: {step.why}"
        if chain.known is not None and step is chain.failure:
            yield f"  known failure: {chain.known.reason} ({chain.known.place})"
        if step.action is None:
            continue
        yield f"  key  {step.action.key}"
        before = _ingredients_before(workspace, latest.get(stage), stage)
        for name, value in step.action.ingredients.items():
            yield f"  {name:<11} {_short(value)}"
            if before is not None and _plain(before.get(name)) != _plain(value):
                was = _difference(before.get(name), value)
                yield f"  {'':<11} CHANGED since the last record of this name: was {was}"
    if found := dispatches(chain):
        yield "\ndispatches, with the time of all their executions in one call:"
        cells = [[name, units.nanoseconds(ns) if ns else "-", text] for name, text, ns in found]
        yield from (f"  {line}" for line in table.aligned(cells, (False, True, False)).splitlines())
    yield from _artifacts(workspace, chain)


def _ingredients_before(workspace: Workspace, key: Any, stage: str) -> Mapping[str, Any] | None:
    if key is None:
        return None
    found = workspace.store.records.measurement(key) if stage == "profile" else workspace.store.records.get(key)
    return found.ingredients if found else None


def _plain(value: Any) -> Any:
    """As it comes back from JSON."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_short(item)}" for name, item in value.items()) or "none"
    if isinstance(value, list | tuple):
        return " ".join(map(_short, value))
    text = str(value)
    # A configuration of a GPU is whole, a library's program is not.
    return text if len(text) <= 400 else f"{text[:300]}… ({len(text)} characters)"


def _difference(old: Any, new: Any) -> str:
    """Only what differs, for lists (flags) and mappings."""
    old, new = _plain(old), _plain(new)
    if isinstance(old, list) and isinstance(new, list):
        gone, come = [x for x in old if x not in new], [x for x in new if x not in old]
        return f"without {_short(come)}, with {_short(gone)}"
    if isinstance(old, dict) and isinstance(new, dict):
        return _short({name: item for name, item in old.items() if new.get(name) != item})
    return _short(old)


def _artifacts(workspace: Workspace, chain: CaseState) -> Iterator[str]:
    links = case_folder.links(chain, workspace.resolver)
    if not links:
        yield "\nnothing is made yet"
        return
    place = workspace.view_path / chain.case.name
    shown = all((place / name).resolve() == workspace.store.path(digest).resolve() for name, digest in links.items())
    yield f"\nartifacts, also in {place}:" if shown else "\nartifacts:"
    width = max(map(len, links))
    yield from (f"  {name:<{width}}  {workspace.store.path(digest)}" for name, digest in sorted(links.items()))
    if not shown:
        yield f"\n{place} is not of this; a run of it with these words writes there what repeats it by hand"
        return
    yield "\nby hand (repro.sh in that directory has the same):"
    seen = workspace.toolchain.environment(workspace.resolver.environment)
    folder = processes.quoted([str(place)])
    for name, argv in case_folder.command_lines(chain, workspace.resolver).items():
        # The compiler gets an empty directory: in the view its output would be written through a link into the store.
        compiles = name == "compile"
        inside, given = ('"$(mktemp -d)"', f" < {folder}/module.mlir") if compiles else (folder, "")
        environment = processes.spelled(seen | command_lines.COMPILING if compiles else seen)
        yield f"  {name}: cd {inside} && {environment} {processes.quoted(argv)}{given}"


def devices(workspace: Workspace) -> str:
    """`doit devices`: each target, and the device that runs it or why there is none; then what the compiler takes this
    CPU for, and GPUs that IREE knows by another's name only."""
    rows: list[dict[str, str | None]] = []
    try:
        host, version = workspace.host, workspace.toolchain.version
        count = len(host.features.split(","))
        note = f"IREE {version} compiles llvm-cpu for {host.name} with {count} features"
        if host.hidden:
            note += f"; it takes this CPU for {host.named}, but this machine hides {host.hidden.replace(',', ', ')}"
        notes = {"llvm-cpu": note}
    except ToolchainError as error:
        notes = {"llvm-cpu": error.problem}
    for target in TARGETS.values():
        device = workspace.device(target, None)
        name = device.identity.get("name") or device.identity.get("cpu")
        here = {"device": device.uri, "name": name} if device.absent is None else {"missing": device.absent}
        rows.append({"target": target.name, "backend": target.backend, "driver": target.driver, **here})
        if hint := HINTS.get(f"{target.backend}-{device.architecture}"):
            notes[device.uri] = f"{device.uri} is {device.architecture}: {hint}"
    return "\n".join([table.text(("target", "backend", "driver", "device", "name", "missing"), rows), *notes.values()])


def toolchains(workspace: Workspace) -> tuple[str, set[str]]:
    """`doit toolchains`: this environment's, the fetched ones, and the one that `iree=` names; and the words of those
    that cannot be used."""
    rows: list[dict[str, str | None]] = []
    unusable = set()
    for word in workspace.toolchain_words:
        try:
            found = toolchain.find(workspace.store, word, workspace.say, limits=workspace.settings.limits)
        except ToolchainError as error:
            rows.append({"iree": word, "version": error.problem})
            unusable.add(word)
            continue
        shown = {
            "version": found.version,
            "revision": (found.revision or "")[:12],
            "digest": found.digest,
            "size": units.size(found.size_bytes),
        }
        rows.append({"iree": word, **shown, "compiler": found.compiler})
    return table.text(("iree", "version", "revision", "digest", "size", "compiler"), rows), unusable


_STANDINGS = ("as known", "otherwise", "passes", "not tried")


def known_failures(workspace: Workspace, selection: Selection) -> Iterator[str]:
    """`doit known`: each entry about this release, how many selected cases it covers, and how those stand: they fail as
    it says, fail otherwise, pass its stage, or were not tried."""
    entries, last = workspace.known.entries, selection.last_stage()
    counts = {id(entry): Counter[str]() for entry in entries}
    for chain in workspace.chains(list(last)):
        for entry in workspace.known.covering(chain.case):
            counts[id(entry)][_stands(chain, entry)] += 1
    for entry in sorted(entries, key=lambda entry: -counts[id(entry)].total()):
        found = counts[id(entry)]
        said = ", ".join(f"{found[word]} {word}" for word in _STANDINGS if found[word])
        yield f"{units.count(found.total(), 'case')}{': ' if said else ''}{said}"
        yield f"  {entry.reason}"
        releases = f" with IREE {entry.toolchain}" if entry.toolchain else ""
        yield f"  {entry.stage}{releases}, {'some of ' if entry.some else ''}{entry.matched}: {entry.message.pattern}"
        yield f"  {entry.place}"
    yield f"{len(entries)} entries; {units.count(len(last), 'case')} selected"


def _stands(chain: CaseState, entry: KnownFailure) -> str:
    if chain.known is entry:
        return "as known"
    if chain.failure is not None:
        return "otherwise"
    return "passes" if chain[entry.stage].state == "made" else "not tried"
