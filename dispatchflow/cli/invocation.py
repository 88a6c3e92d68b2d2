"""The context in which a command works: the project, the selected cases, and the user's own tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from doit.cmd_base import DodoTaskLoader, TaskLoader2
from doit.task import Task

from dispatchflow.cli import selection, variables
from dispatchflow.cli.selection import Selection
from dispatchflow.errors import SpecError
from dispatchflow.project.replay import Replay
from dispatchflow.project.workspace import Workspace


class Invocation:
    """Opens the project and selects cases for one command line.

    Args:
        root: the directory of dodo.py.
        names: the names that dodo.py defines, with their values.
        variables: the text of each variable of the command line, by name.
        recall: records the output and what it depends on, so that a later invocation can print the recorded output.
            None if nothing is recorded.
    """

    def __init__(
        self,
        root: Path,
        names: Mapping[str, Any],
        variables: Mapping[str, str],
        commands: Sequence[str],
        recall: Replay | None,
    ) -> None:
        self.root, self.names, self.variables, self.commands, self.recall = root, names, variables, commands, recall
        self.program: tuple[str, ...] = ()
        """The command line of another program, given after `--`."""
        self._workspaces: list[Workspace] = []

    def workspace(self, groups: Iterable[str] = ("cases", "run")) -> Workspace:
        values, say = variables.parse(self.variables, groups), partial(print, flush=True)
        self._workspaces.append(Workspace(self.root, values, self.recall, say))
        return self._workspaces[-1]

    def close(self) -> None:
        for workspace in self._workspaces:
            workspace.close()

    def foreign(self) -> list[Task]:
        return selection.foreign_tasks(dict(self.names), self.commands)

    def select(self, workspace: Workspace, words: Sequence[str], foreign: Sequence[Task]) -> Selection:
        return selection.select(words, workspace.plan, [task.name for task in foreign], self.commands)

    def to_make(self, workspace: Workspace, words: Sequence[str], own: Sequence[Task]) -> Selection:
        """Return the cases and tasks that the words of a command line select.

        The cases on which a selected task of the user depends are selected too.

        Raises:
            SpecError: the variable `remeasure=` is given, and no case is selected for `profile` or `sites`.
        """
        found = selection.with_dependencies(self.select(workspace, words, own), own, workspace.plan)
        if workspace.settings.remeasure is not None and not found.measured:
            facts = {"given": " ".join([*words, f"remeasure={self.variables['remeasure']}"])}
            raise SpecError(
                "remeasure= is given, but no case is selected for profile",
                facts,
                "Leave remeasure= out, or select profile:*.",
            )
        return found


class Loader(TaskLoader2):  # type: ignore[misc]
    cmd_options = DodoTaskLoader.cmd_options

    def __init__(self, app: Invocation) -> None:
        super().__init__()
        self.app = app
