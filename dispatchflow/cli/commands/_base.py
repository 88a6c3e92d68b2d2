"""The base of commands that execute no stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from doit.cmd_base import Command, DodoTaskLoader
from doit.cmdparse import CmdOption

from dispatchflow.cli.invocation import Loader
from dispatchflow.errors import SpecError
from dispatchflow.planning.plan import Skip

LIMITS = ("compile_limit", "run_limit", "memory_limit")
"""Variables of a command that runs a tool of a toolchain."""


class QueryCommand(Command):  # type: ignore[misc]
    """A command that executes no stage."""

    # A command imports inside its functions what it needs besides the plan, because an idle run, the most frequent one,
    # needs none of it.
    groups: tuple[str, ...] = ("cases", "run")

    def __init__(self, task_loader: Loader, cmds: Any = None, **rest: Any) -> None:
        super().__init__(**rest)
        self.app, self.commands = task_loader.app, cmds or {}

    def get_options(self) -> list[CmdOption]:
        return [CmdOption(option) for option in (*DodoTaskLoader.cmd_options, *self.cmd_options)]


def no_words(command: str, args: list[str]) -> None:
    if args:
        raise SpecError(f"{command} takes no words", {"given": " ".join(args)})


def print_skips(skips: Collection[Skip]) -> None:
    width = max((len(skip.name) for skip in skips), default=0)
    print("".join(f"{skip.name:<{width}}  {skip.reason}\n" for skip in skips), end="")
    if len(reasons := Counter(skip.reason for skip in skips)) < len(skips):
        print("\n" + "\n".join(f"{count:>6,}  {reason}" for reason, count in reasons.most_common()))


def print_aligned(lines: Mapping[str, str]) -> None:
    width = max(map(len, lines))
    print("\n".join(f"{name:<{width}}  {line}" for name, line in lines.items()))
