"""The context of one command line: workspaces, selections, and the user's own tasks."""

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
    """The context that commands work in.

    Args:
        root: the directory of dodo.py.
        names: the names that the dodo file defines, with their values.
        variables: the variables of the command line, name → text.
        commands: the names of all commands.
        recall: records everything that is read, for a later replay; None if the answer must not be replayed.
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
        """Return what `words` select, and the cases that the selected tasks of the user depend on.

        Raises:
            SpecError: remeasure= is given and no case is selected for profile.
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
