"""`doit report` shows rows of the Parquet files."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from dispatchflow.cli.commands._base import QueryCommand
from dispatchflow.errors import SpecError, escaped


class ReportCommand(QueryCommand):
    name = "report"
    doc_purpose = "rows from Parquet: sort=, top=, columns=, tags=, format=, out= (doit variables)"
    fastest = False
    groups: tuple[str, ...] = ("report", "tags", "history")

    def execute(self, params: Any, args: list[str]) -> int:
        workspace = self.app.workspace(self.groups)
        from dispatchflow.reports import query

        text = query.report(workspace.store_path / "results", workspace.values, args, self.fastest)
        if out := workspace.values.get("out"):
            try:
                Path(out).write_text(text + "\n", encoding="utf-8")
            except OSError as error:
                raise _unwritable(Path(out), error) from error
        else:
            print(escaped(text))  # tags and names of functions may have any character
        return 0


def _unwritable(out: Path, error: OSError) -> SpecError:
    problem = f"out={out} cannot be written"
    if isinstance(error, FileNotFoundError) and not out.parent.exists():
        way_out = f"Create it: mkdir -p {shlex.quote(str(out.parent))}."
        return SpecError(problem, {"found": f"no folder '{out.parent}'"}, way_out)
    return SpecError(problem, {"found": error.strerror})
