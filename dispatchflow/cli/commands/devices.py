"""`doit devices` lists each target with its device, or why it has none."""

from __future__ import annotations

from typing import Any

from dispatchflow.cli.commands._base import LIMITS, QueryCommand, no_words
from dispatchflow.errors import ToolchainError
from dispatchflow.iree.targets import HINTS, TARGETS
from dispatchflow.project.workspace import Workspace
from dispatchflow.reports import table


class DevicesCommand(QueryCommand):
    name = "devices"
    page = "docs/targets.md"
    groups = ("iree", *LIMITS)
    doc_purpose = "list each target with its device, or why it has none"

    def execute(self, params: Any, args: list[str]) -> int:
        no_words(self.name, args)
        print(table_of(self.app.workspace(self.groups)))
        return 0


def table_of(workspace: Workspace) -> str:
    """Return the table that `doit devices` prints, and the notes below it."""
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
