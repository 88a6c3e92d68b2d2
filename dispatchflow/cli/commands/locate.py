"""`doit locate` finds out which sites of a case compute wrong results.

A site is a place of a program that launches a dispatch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dispatchflow.cases.module import ONNXRUNTIME
from dispatchflow.cli import output
from dispatchflow.cli.commands._base import QueryCommand, join_users, one_case
from dispatchflow.errors import escaped
from dispatchflow.iree.targets import Target
from dispatchflow.planning import sweep_words
from dispatchflow.planning.location import COMMAND_LINE, Location
from dispatchflow.project.workspace import Workspace

_OWN = ("reference", "sites", "limit", "out")


class LocateCommand(QueryCommand):
    name = "locate"
    page = "docs/sites-alone.md"
    doc_purpose = (
        "find the sites of a case whose results are wrong; usage: doit locate CASE [reference=llvm-cpu] [sites=1,10]"
    )
    groups = ("cases", "run", "sites", "limit", "execution", "out")

    def execute(self, params: Any, args: list[str]) -> int:
        from dispatchflow.project import locating
        from dispatchflow.reports import located

        workspace = self.app.workspace(self.groups)
        given = _reference(workspace)
        case = one_case(self.app, workspace, args, self.name)
        reference = locating.reference_of(case, given)
        join_users(workspace)
        found = locating.located(workspace, case, reference, workspace.values.get("sites"))
        text = escaped(located.report(found, self._words(args)))
        output.say_or_write(text, workspace.values.get("out"))
        return int(found.fails)

    def _words(self, args: Sequence[str]) -> list[str]:
        return [*args, *(f"{name}={text}" for name, text in self.app.variables.items() if name not in _OWN)]


def _reference(workspace: Workspace) -> Target | None:
    """Return the target that `reference=` names; None if the variable is missing or is onnxruntime.

    If neither `file=` nor `suite=` is given, also remove `reference` from `workspace.values`."""
    values = workspace.values
    word = values.get("reference")
    if not {"file", "suite"} & values.keys():
        # With `reference`, the command line would be read as a sweep of a user's modules.
        workspace.values = {name: value for name, value in values.items() if name != "reference"}
    if word is None or word == ONNXRUNTIME:
        return None
    return sweep_words.targets(word, Location(COMMAND_LINE).at("reference"))[0]
