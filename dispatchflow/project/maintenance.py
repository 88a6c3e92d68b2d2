"""Show what takes space in the store (`doit store`), and clean it (`doit store clean`)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path

from dispatchflow.engine import made_later, site_states
from dispatchflow.errors import SpecError, StoreError
from dispatchflow.keys import Key
from dispatchflow.measurement import trials
from dispatchflow.project.workspace import Workspace
from dispatchflow.reports import store as report
from dispatchflow.results.parquet import CASES
from dispatchflow.results.site_rows import SITE_ROWS
from dispatchflow.store import retention
from dispatchflow.tools import releases


def overview(workspace: Workspace) -> str:
    """Return the text that `doit store` prints: the size of each part of the store.

    The objects (files that stages made) are listed by kind, such as compiled modules."""
    store = workspace.store
    sizes = store.objects()
    objects = retention.tally(sizes, retention.kinds(sizes, store.records.held()))
    records = _files_and_bytes(store.root.glob("records.sqlite*"))
    parts = (store.root / table.folder for table in (CASES, SITE_ROWS))
    rows = _files_and_bytes(part for folder in parts for part in folder.glob("*"))
    rest = {
        "records": records,
        "results": rows,
        "toolchains": (len(releases.fetched_versions(store)), _files_and_bytes(releases.folder(store).rglob("*"))[1]),
        "answers": _files_and_bytes((store.root / "answers").glob("*")),
        "scratch": _files_and_bytes((store.root / "tmp").rglob("*")),
    }
    cases_bytes = sum(sizes.values()) + records[1] + rows[1]
    facts = workspace.facts
    everyones = None if facts.root is None else (facts.root, _files_and_bytes(facts.root.rglob("*"))[1])
    return report.overview(objects, rest, store.records.cases(), cases_bytes, everyones)


def _files_and_bytes(paths: Iterator[Path]) -> tuple[int, int]:
    found = []
    for path in paths:
        with suppress(FileNotFoundError):  # another run has removed it
            found.append(0 if path.is_dir() else path.lstat().st_size)
    return len(found), sum(found)


def clean(workspace: Workspace) -> str:
    """Run `doit store clean` and return its report.

    Unless `dry=yes` is given, this function waits until no run uses the store.

    Raises:
        StoreError: the records are damaged, or this command was started by a run that uses the store.
        SpecError: `keep=referenced` is given, but there are no cases.
        ToolchainError: `keep=referenced` is given, but a toolchain in `workspace.toolchain_words` is missing or does
            not run.
    """
    store, values = workspace.store, workspace.values
    dry = values.get("dry", False)

    def waiting(process: int) -> None:
        if process in _ancestors():
            facts = {"store": store.root, "process": process}
            raise StoreError("a run cannot clean the store that it uses", facts, "Clean it before or after.")
        whom = f"process {process} no longer uses this store" if process else "another `doit store clean` is done"
        workspace.say(f"waits until {whom}")

    store.records.require_sound()
    with nullcontext() if dry else store.users.alone(waiting):
        held, sizes = store.records.held(), store.objects()
        keep = _keys_to_keep(workspace, held) if "keep" in values else None
        removal = retention.removal(sizes, held, keep, values.get("limit"))
        if not dry:
            store.discard(removal.keys, removal.objects)
            with store.writing():
                # Killed runs left these: no run is active now.
                for leftover in (*store.results.glob("*.tmp"), *workspace.view_path.glob("*/.*")):
                    leftover.unlink()
    gone = {digest: sizes.pop(digest) for digest in removal.objects}
    kind_of = retention.kinds(gone, held)
    left = (len(sizes), sum(sizes.values()))
    unlimited = keep is None and "limit" not in values
    return report.cleaned(retention.tally(gone, kind_of), len(removal.keys), left, values.get("limit"), dry, unlimited)


def _ancestors() -> set[int]:
    found: set[int] = set()
    process = os.getppid()
    while process > 1:
        found.add(process)
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return found


def _keys_to_keep(workspace: Workspace, held: Sequence[retention.StoredRecord]) -> set[Key]:
    keys: set[Key] = set()
    for word in workspace.values["keep"]:
        keys |= _referenced(workspace, held) if word == "referenced" else retention.made_since(held, word, time.time())
    return keys


def _referenced(workspace: Workspace, held: Sequence[retention.StoredRecord]) -> set[Key]:
    """Return the keys of all records in the store that belong to the requested cases.

    The records may come from any available toolchain, any command and any measurement protocol."""
    if not workspace.plan.cases:
        raise SpecError("there are no cases", {"given": "keep=referenced"}, "Everything would be removed.")
    keys: set[Key] = set()
    for word in workspace.toolchain_words:
        one = workspace.with_toolchain(word)
        for chain in one.chains(one.plan.cases):
            keys |= {step.key for step in chain.steps.values() if step.key}
            keys |= {action.key for action in one.resolver.supplies.actions(chain.case.operation)}
            if (action := trials.rotation_action(one.resolver, chain.case)) is not None:
                keys.add(action.key)
            if (tracing := site_states.provenance_of(chain)) is not None:
                keys.add(tracing.key)
        targets = {case.target.name: case.target for case in one.plan.cases}
        keys |= {action.key for target in targets.values() for action in one.ceilings.compilations(target)}
    keys |= made_later.keys(held, keys)
    programs = {found for record in held if record.key in keys and (found := record.outputs.get("sites"))}
    return keys | {record.key for record in held if record.outputs.get("sites") in programs}
