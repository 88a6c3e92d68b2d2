"""`doit phases` shows the module after each of the compiler's phases, and how two compiles differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dispatchflow import units
from dispatchflow.cli import output
from dispatchflow.cli.commands._base import QueryCommand, join_users, one_case
from dispatchflow.errors import NothingMatched, SpecError, ToolError, escaped, suggestion
from dispatchflow.iree import phases
from dispatchflow.iree.phases import Phase
from dispatchflow.project.case_phases import CasePhases
from dispatchflow.project.workspace import Workspace
from dispatchflow.reports import phases as report

_TOOLCHAIN = "iree="


class PhasesCommand(QueryCommand):
    name = "phases"
    page = "docs/sites-alone.md"
    doc_purpose = (
        "show the module after each compiler phase, or compare it with that of another case; "
        "usage: doit phases CASE [from=flow to=stream] [with=CASE2] [timing=yes] [pass=all]"
    )
    groups = ("cases", "run", "phases", "out")

    def execute(self, params: Any, args: list[str]) -> int:
        workspace = self.app.workspace(self.groups)
        case = one_case(self.app, workspace, args, self.name)
        join_users(workspace)
        asked, values = CasePhases(workspace, case), workspace.values
        parts, failures = list[str](), list[str]()
        if values.get("timing"):
            parts.append(f"slowest passes of {case.name}\n{report.slowest(asked.times())}")
        for record, name in (
            *([(asked.passes(), "passes.txt")] if values.get("pass") else []),
            *([(asked.program_text(kind), f"module.{kind}")] if (kind := values.get("output")) else []),
        ):
            failures += [record.reason or "failed"] if not record.ok else []
            if name in record.outputs:
                size = workspace.store.path(record.outputs[name]).stat().st_size
                parts.append(f"{asked.file(name)}  {units.size(size)}")
            parts += [f"note: {doubt}" for doubt in [record.facts.get("doubt")] if doubt]
        compared = values.keys() & {"from", "to", "with"}
        if compared or not values.keys() & {"timing", "pass", "output"}:
            other = _other(workspace, asked, values["with"]) if "with" in values else None
            parts += _across(asked, other, values) if other else _within(asked, values) if compared else _list(asked)
            both = (asked, other) if other else (asked,)
            failures += [f"{each.case.name}: {each.dumped.reason}" for each in both if not each.dumped.ok]
            parts += [f"note: {each.case.name}: {doubt}" for each in both if (doubt := each.dumped.facts.get("doubt"))]
        text = escaped("\n".join([*parts, *(f"only the phases before this failure exist: {why}" for why in failures)]))
        output.say_or_write(text, values.get("out"))
        return int(bool(failures))


def _other(workspace: Workspace, asked: CasePhases, word: str) -> CasePhases:
    """Return the compiler phases of the case that is compared with the case `asked`.

    `word` is the value of the variable `with=`: another case, or `iree=…` for the same case compiled by another IREE.
    """
    folder = phases.FOLDER
    if word.startswith(_TOOLCHAIN):
        workspace = workspace.with_toolchain(word.removeprefix(_TOOLCHAIN))
        word = asked.case.name
        folder += f"-{workspace.toolchain.version}"  # keep the links of the case's own toolchain
    name = word.partition(":")[2] or word
    if (case := next((case for case in workspace.plan.cases if case.name == name), None)) is None:
        facts = {"given": f"with={word}", "cases": f"{len(workspace.plan.cases)} in the plan"}
        hint = suggestion(name, [case.name for case in workspace.plan.cases[:1000]])
        raise NothingMatched(f"there is no case '{name}'", facts, hint or "Give the variables of that case too.")
    return CasePhases(workspace, case, folder)


def _list(asked: CasePhases) -> Iterator[str]:
    sizes = _known(asked)
    yield f"phases of {asked.case.name}"
    yield report.listing(sizes, {phase: asked.file(phase.file) for phase in sizes})


def _known(asked: CasePhases) -> dict[Phase, int]:
    if not (sizes := asked.sizes()):
        raise ToolError("the compiler dumped no phase", {"case": asked.case.name, "found": asked.dumped.reason})
    return sizes


def _within(asked: CasePhases, values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the difference between a case's module after one phase and its module after another phase.

    The variables `from=` and `to=` name the phases. If `to=` is missing, the phase after `from=` is used. If `from=`
    is missing, the phase before `to=` is used."""
    known = list(_known(asked))
    begin = phases.named(values["from"], known, "from") if "from" in values else None
    end = phases.named(values["to"], known, "to") if "to" in values else None
    if begin is None:
        assert end is not None
        begin = known[max(0, known.index(end) - 1)]
    if end is None:
        end = known[min(len(known) - 1, known.index(begin) + 1)]
    if begin == end and ("from" in values) != ("to" in values):
        word, beside = ("from", "later") if "from" in values else ("to", "earlier")
        raise SpecError(f"there is no {beside} phase to compare with", {word: begin.name}, "Name two phases, or with=.")
    if begin == end:
        raise SpecError("from= and to= are the same phase", {"phase": begin.name}, "Name two phases, or with=.")
    yield (
        report.difference(asked.lines(begin), asked.lines(end), (begin.file, end.file))
        or f"no difference between {begin.name} and {end.name}"
    )


def _across(asked: CasePhases, other: CasePhases, values: Mapping[str, Any]) -> Iterator[str]:
    """Yield text that shows after which compiler phases the modules of two compiles differ, and how."""
    known = list(_known(asked))
    _known(other)
    names = [each.case.name for each in (asked, other)]
    if names[0] == names[1]:
        names = [
            f"{name} (IREE {each.workspace.toolchain.version})"
            for name, each in zip(names, (asked, other), strict=True)
        ]
    mine = {phase: asked.lines(phase) for phase in known}
    theirs = {phase: other.lines(phase) for phase in other.phases}
    begin = phases.named(values["from"], known, "from") if "from" in values else None
    end = phases.named(values["to"], known, "to") if "to" in values else None
    yield f"phases of {names[0]}\n    with {names[1]}\n{report.comparison(mine, theirs)}"
    parting = report.first(mine, theirs)
    if parting is None:
        yield "no difference"
        return
    yield f"first difference: after {parting.name}"
    # One variable alone selects one phase. Without both, the first phase with a difference is shown.
    low, high = begin or end or parting, end or begin or parting
    beside = {phase.name: phase for phase in theirs}
    for phase in known[known.index(low) : known.index(high) + 1]:
        if phase.name in beside:
            files = tuple(f"{name}/{phase.file}" for name in names)
            yield report.difference(mine[phase], theirs[beside[phase.name]], (files[0], files[1])) or (
                f"no difference after {phase.name}"
            )
