"""`doit store` shows what takes space in the store; `check` and `clean` are its subcommands."""

from __future__ import annotations

from typing import Any

from dispatchflow.cli.commands._base import LIMITS, QueryCommand
from dispatchflow.errors import SpecError


class StoreCommand(QueryCommand):
    name = "store"
    page = "docs/caching.md"
    groups = ("check", "clean", "cases", "iree", *LIMITS)
    doc_purpose = "show what takes the space; store check finds damage; store clean removes what is not needed"

    def execute(self, params: Any, args: list[str]) -> int:
        from dispatchflow.project import maintenance, store_check

        match args:
            case []:
                print(maintenance.overview(self.app.workspace(("store",))))
                return 0
            case ["check"]:
                text, sound = store_check.check(self.app.workspace(("check", "iree", *LIMITS)))
                print(text)
                return 0 if sound else 1
            case ["clean"]:
                # Only keep=referenced needs the cases and their toolchains.
                referenced = "referenced" in self.app.variables.get("keep", "")
                groups = ("clean", "cases", "iree", *LIMITS) if referenced else ("clean",)
                print(maintenance.clean(self.app.workspace(groups)))
                return 0
        raise SpecError("store takes one word, or none", {"given": " ".join(args), "known": "check, clean"})
