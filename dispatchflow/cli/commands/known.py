"""`doit known` lists the known (expected) failures, and counts the outcomes of their cases.

A case fails as expected, fails in another way, passes, or was not tried. With `write=FILE`, the command writes entries
for new failures instead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dispatchflow import units
from dispatchflow.cases.known_failures import KnownFailure
from dispatchflow.cli.commands._base import QueryCommand
from dispatchflow.cli.output import unwritable
from dispatchflow.cli.selection import Selection
from dispatchflow.cli.variables import VARIABLES
from dispatchflow.engine.state import CaseState
from dispatchflow.project.workspace import Workspace
from dispatchflow.stages import STAGES

_STANDINGS = ("as known", "otherwise", "passes", "not tried")


class KnownCommand(QueryCommand):
    name = "known"
    page = "docs/known-failures.md"
    doc_purpose = (
        "list the known failures, how many cases each covers, and whether these cases still fail; "
        "write=FILE writes entries for new failures"
    )
    groups = ("cases", "run", "known")

    def execute(self, params: Any, args: list[str]) -> int:
        workspace = self.app.workspace(self.groups)
        selection = self.app.select(workspace, args or list(STAGES[-1:]), self.app.foreign())
        if out := workspace.values.get("write"):
            print(_write(workspace, selection, Path(out)))
        else:
            selected = bool(args) or any(VARIABLES[word].group == "cases" for word in workspace.values)
            print("\n".join(_known_failures(workspace, selection, every=not selected)))
        return 0


def _write(workspace: Workspace, selection: Selection, path: Path) -> str:
    """Write the failures of the selected cases to the file `path` as known failures; return a message.

    The command leaves out failures of libraries such as numpy, and failures that another file lists.

    Raises:
        SpecError: the file cannot be written, or has content that this command did not write.
    """
    from dispatchflow.reports import known_failures

    try:
        old = known_failures.old_entries(path.read_text(encoding="utf-8"), path) if path.exists() else []
        own = path.resolve()
        chains = workspace.chains(list(selection.last_stage()))
        failed = [
            chain
            for chain in chains
            if chain.failure is not None and chain.case.library is None
            if chain.known is None or _file_of(chain.known, workspace.root) == own
        ]
        text, kept = known_failures.entries(failed, workspace.toolchain.version, old, chains)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise unwritable(path, error, "write") from error
    said = f"{units.count(len(failed), 'failure')} written to {path}"
    if kept:
        others = "cases that are not selected, not tried, or no longer exist"
        said += f", which keeps {units.count(kept, 'failure')} of {others}"
    if own.parent == (workspace.root / "specs").resolve() and own.suffix == ".toml":
        return f"{said}; each run reads the entries of files in specs/"
    return f"{said}; to be read by each run, it must be a .toml file in specs/"


def _file_of(entry: KnownFailure, root: Path) -> Path:
    return (root / entry.place.rpartition(", ")[0].rpartition(":")[0]).resolve()


def _known_failures(workspace: Workspace, selection: Selection, every: bool) -> Iterator[str]:
    """Yield lines of text: this IREE release's known failures, and how many cases each failure covers.

    If `every` is true, known failures that cover no selected case are listed too."""
    entries, last = workspace.known.entries, selection.last_stage()
    counts = {id(entry): Counter[str]() for entry in entries}
    for chain in workspace.chains(list(last)):
        for entry in workspace.known.covering(chain.case):
            counts[id(entry)][_status_of(chain, entry)] += 1
    for entry in sorted(entries, key=lambda entry: -counts[id(entry)].total()):
        found = counts[id(entry)]
        if not (found or every):
            break  # these entries come last
        said = ", ".join(f"{found[word]} {word}" for word in _STANDINGS if found[word])
        yield f"{units.count(found.total(), 'case')}{': ' if said else ''}{said}"
        yield f"  {entry.reason}"
        releases = f" with IREE {entry.toolchain}" if entry.toolchain else ""
        yield f"  {entry.stage}{releases}, {'some of ' if entry.some else ''}{entry.matched}: {entry.message.pattern}"
        yield f"  {entry.place}"
    idle = 0 if every else sum(not found for found in counts.values())
    left = f", {idle} of them left out because they cover no selected case" if idle else ""
    yield f"{len(entries)} entries{left}; {units.count(len(last), 'case')} selected"


def _status_of(chain: CaseState, entry: KnownFailure) -> str:
    if chain.known is entry:
        return "as known"
    if chain.failure is not None:
        return "otherwise"
    return "passes" if chain[entry.stage].state == "made" else "not tried"
