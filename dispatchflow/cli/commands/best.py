"""`doit best`: the fastest verified configuration of each shape."""

from __future__ import annotations

from dispatchflow.cli.commands.report import ReportCommand


class BestCommand(ReportCommand):
    name = "best"
    doc_purpose = "the fastest verified configuration of each shape, and its speed-up over default"
    fastest = True
    groups = ("report", "tags")
