"""The base class of all commands except `run`, and functions that several commands use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from doit.cmd_base import Command, DodoTaskLoader
from doit.cmdparse import CmdOption

from dispatchflow.cases.case import Case
from dispatchflow.cli.invocation import Invocation, Loader
from dispatchflow.errors import SpecError
from dispatchflow.planning.plan import Skip
from dispatchflow.project.workspace import Workspace
from dispatchflow.stages import cases_named

LIMITS = ("compile_limit", "run_limit", "memory_limit")
"""The variables that limit the time and memory of IREE's tools when a command starts them."""


class QueryCommand(Command):  # type: ignore[misc]
    """A command other than `run`.

    Each command loads the files of all commands. To make this fast, some of these files import modules only inside
    functions."""

    groups: tuple[str, ...] = ("cases", "run")
    """The variables that the command accepts: names of single variables, or of groups of variables.

    The file `cli/variables.py` defines the groups, such as `cases`."""

    page: str
    """The page of the documentation that describes the command."""

    def __init__(self, task_loader: Loader, cmds: Any = None, **rest: Any) -> None:
        super().__init__(**rest)
        self.app, self.commands = task_loader.app, cmds or {}

    def get_options(self) -> list[CmdOption]:
        return [CmdOption(option) for option in (*DodoTaskLoader.cmd_options, *self.cmd_options)]


def no_words(command: str, args: list[str]) -> None:
    if args:
        raise SpecError(f"{command} takes no words", {"given": " ".join(args)})


def join_users(workspace: Workspace) -> None:
    """Wait until a running `doit store clean` ends, then register this process as a user of the store.

    No other `doit store clean` begins while this process is registered."""
    workspace.store.users.join(lambda _: workspace.say("waits until `doit store clean` is done"))


def one_case(app: Invocation, workspace: Workspace, words: Sequence[str], command: str) -> Case:
    """Return the one case that the words of a command line select.

    A word is `CASE` or `STAGE:CASE`. Without words, all cases are selected.

    Raises:
        SpecError: no case or more than one case is selected, or the case is skipped.
    """
    stages = [word if cases_named(word) else f"compile:{word}" for word in words]
    selection = app.select(workspace, stages or ["compile"], ())
    cases = list(selection.last_stage())
    if len(cases) == 1:
        return cases[0]
    form = {"form": f"doit {command} CASE"}
    if cases:
        facts = {"selected": f"{len(cases)} cases, such as {cases[0].name} and {cases[1].name}", **form}
        raise SpecError(f"{command} needs one case", facts, "Name one of them.")
    if selection.skips:
        skip = next(iter(selection.skips))
        raise SpecError(f"{skip.name} is skipped", {"reason": skip.reason})
    raise SpecError(f"{command} needs a case", form, "doit list --all profile shows every name.")


def print_skips(skips: Collection[Skip]) -> None:
    width = max((len(skip.name) for skip in skips), default=0)
    print("".join(f"{skip.name:<{width}}  {skip.reason}\n" for skip in skips), end="")
    if len(reasons := Counter(skip.reason for skip in skips)) < len(skips):
        print("\n" + "\n".join(f"{count:>6,}  {reason}" for reason, count in reasons.most_common()))


def print_aligned(lines: Mapping[str, str]) -> None:
    width = max(map(len, lines))
    print("\n".join(f"{name:<{width}}  {line}" for name, line in lines.items()))
