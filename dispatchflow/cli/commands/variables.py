"""`doit variables` lists the variables that a command line may set, with their meanings."""

from __future__ import annotations

from typing import Any

from dispatchflow.cli import variables
from dispatchflow.cli.commands._base import QueryCommand, no_words, print_aligned


class VariablesCommand(QueryCommand):
    name = "variables"
    page = "docs/specs.md"
    groups = ()
    doc_purpose = "list the variables, name=value, with their meanings"

    def execute(self, params: Any, args: list[str]) -> int:
        no_words(self.name, args)
        variables.parse(self.app.variables, ())
        groups = {"cases": "which cases there are", "run": "how they are run", "report": "what report and best show"}
        groups |= {"stage sites": "what sites shows, besides sort, top, format and out"}
        groups |= {
            "extract": "what extract takes",
            "phases": "what phases shows",
            "annotate": "what annotate shows, besides top and out",
        }
        groups |= {"history": "what report alone shows", "known": "what known writes"}
        groups |= {"toolchains": "what toolchains removes"}
        groups |= {"check": "what store check looks at", "clean": "what store clean removes"}
        for group, title in groups.items():
            print(f"{title}:")
            print_aligned({f"  {n}=": v.meaning for n, v in variables.VARIABLES.items() if v.group == group})
        return 0
