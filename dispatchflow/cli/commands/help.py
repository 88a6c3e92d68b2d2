"""`doit help WORD` describes a command, a stage, a variable or a task."""

from __future__ import annotations

from typing import Any

from dispatchflow.cli import variables
from dispatchflow.cli.commands._base import QueryCommand
from dispatchflow.cli.commands.list import RUN, named
from dispatchflow.errors import SpecError, suggestion


class HelpCommand(QueryCommand):
    """Describe each word of `doit help WORD`; doit itself executes `doit help` without a word."""

    name = "help"
    doc_purpose = "explain a command, a stage, a variable or a task of your own; usage: doit help WORD"

    def execute(self, params: Any, args: list[str]) -> int:
        known = {name: variable.meaning for name, variable in variables.VARIABLES.items()}
        known |= {RUN: self.commands[RUN].doc_purpose, **named(self.app.foreign(), self.commands)}
        for word in (each.partition(":")[0] for each in args):
            if word not in known:
                raise SpecError(f"there is no help on '{word}'", {}, suggestion(word, known) or "doit list shows all.")
            print(f"{word}  {known[word]}")
            for option in self.commands[word].cmd_options if word in self.commands else ():
                short = f"-{option['short']}, " if option["short"] else ""
                print(f"  {short}--{option['long']}  {option['help']}")
        return 0
