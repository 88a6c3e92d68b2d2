"""Execute the command that a command line names; each file of `commands/` defines one command."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from doit.cmd_base import Command
from doit.doit_cmd import reset_vars, set_var

from dispatchflow.cli.command_line import CommandLine
from dispatchflow.cli.invocation import Invocation, Loader
from dispatchflow.errors import SpecError
from dispatchflow.project.replay import Replay
from dispatchflow.registry import members

COMMANDS = members("dispatchflow.cli.commands", Command, "name", "Command")


def answer(root: Path, names: Mapping[str, Any], line: CommandLine, recall: Replay | None) -> int:
    """Execute the command that the command line names, and return the exit code.

    The default command is `run`. `recall` records the printed text and what the text depends on. A later invocation
    can then print the recorded text instead of executing the command. If `recall` is None, nothing is recorded."""
    commands = {command.name: command for command in COMMANDS}
    reset_vars()
    for name, value in line.variables.items():
        set_var(name, value)  # the user's own tasks may read them with doit's `get_var`
    app = Invocation(root, names, line.variables, sorted(commands), recall)
    name, *words = line.words if line.words and line.words[0] in commands else ("run", *line.words)
    flags = line.flags
    if {"-h", "--help"} & set(flags):
        name, words, flags = "help", line.words, []
    if line.program and name != "trace":
        facts = {"given": f"-- {' '.join(line.program)}", "form": "doit trace -- python my_script.py"}
        raise SpecError(f"{name} starts no other program", facts)
    app.program = tuple(line.program)
    command = commands[name](
        task_loader=Loader(app), config={}, bin_name="doit", cmds=commands,
        opt_vals=line.before,
    )  # fmt: skip
    code: int = command.parse_execute(flags + words)
    app.close()
    return code
