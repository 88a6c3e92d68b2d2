"""`doit toolchains` lists the available compilers."""

from __future__ import annotations

from typing import Any

from dispatchflow import units
from dispatchflow.cli.commands._base import LIMITS, QueryCommand, no_words
from dispatchflow.errors import ToolchainError
from dispatchflow.project.workspace import Workspace
from dispatchflow.reports import table
from dispatchflow.tools import releases, toolchain


class ToolchainsCommand(QueryCommand):
    name = "toolchains"
    page = "docs/upgrades.md"
    groups = ("toolchains", "iree", *LIMITS)
    doc_purpose = "list the available compilers: version, revision, digest, size; remove=3.12.0 removes a fetched one"

    def execute(self, params: Any, args: list[str]) -> int:
        no_words(self.name, args)
        workspace = self.app.workspace(self.groups)
        if "remove" in workspace.values:
            releases.remove(workspace.store, workspace.values["remove"])
        text, unusable = _toolchains(workspace)
        print(text)
        return 2 if workspace.values.get("iree") in unusable else 0


def _toolchains(workspace: Workspace) -> tuple[str, set[str]]:
    """Return the text of `doit toolchains`, and the values of `iree=` that name unusable toolchains."""
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
