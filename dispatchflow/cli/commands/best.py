"""`doit best` is a variant of `doit report`."""

from __future__ import annotations

from dispatchflow.cli.commands.report import ReportCommand


class BestCommand(ReportCommand):
    name = "best"
    page = "docs/results.md"
    doc_purpose = "show the fastest correct configurations of each shape, with their speed-up over the default one"
    fastest = True
    groups = ("report", "tags")
