"""`doit report` shows rows of the Parquet files."""

from __future__ import annotations

from typing import Any

from dispatchflow.cli import output
from dispatchflow.cli.commands._base import QueryCommand
from dispatchflow.errors import escaped
from dispatchflow.project.workspace import Workspace
from dispatchflow.stages import cases_named


class ReportCommand(QueryCommand):
    name = "report"
    page = "docs/results.md"
    doc_purpose = (
        "show rows from Parquet: sort=, top=, columns=, tags=, format=, out=; stage=verify shows verdicts of cases"
    )
    fastest = False
    groups: tuple[str, ...] = ("report", "tags", "history")

    def execute(self, params: Any, args: list[str]) -> int:
        of_cases = not self.fastest and "stage" in self.app.variables
        workspace = self.app.workspace(("cases", "run", "report", "stage") if of_cases else self.groups)
        from dispatchflow.reports import query

        if of_cases:
            text = self._verdicts(workspace, args)
        else:
            text = query.report(workspace.store_path / "results", workspace.values, args, self.fastest)
        if out := workspace.values.get("out"):
            output.to_file(text, out)
        else:
            print(escaped(text))  # tags and names of functions may have any character
        return 0

    def _verdicts(self, workspace: Workspace, args: list[str]) -> str:
        from dispatchflow.reports import query, verdicts

        words = [word if cases_named(word) else f"verify:{word}" for word in args] or ["verify"]
        selected = self.app.select(workspace, words, ())
        chains = workspace.chains(list(selected.last_stage()))
        rows = verdicts.rows(chains, workspace.toolchain.version, workspace.plan.tags)
        return query.formatted(rows, workspace.values, verdicts.COLUMNS)
