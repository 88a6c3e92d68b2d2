"""`doit help WORD` describes a command, a stage, a variable or a task."""

from __future__ import annotations

from typing import Any

from dispatchflow.cli import sites, variables
from dispatchflow.cli.case_tasks import STAGE_PAGES
from dispatchflow.cli.commands._base import QueryCommand, print_aligned
from dispatchflow.cli.commands.list import RUN, named
from dispatchflow.cli.variables import Variable
from dispatchflow.errors import SpecError, suggestion
from dispatchflow.stages import NAMED, SITES

_SHARED = {"cases": "for cases", "run": "for runs"}
"""The groups of variables that many commands accept, with a phrase for each group.

The help of a command prints only the phrase, because these groups have too many variables to list."""


class HelpCommand(QueryCommand):
    """Describe each word that follows `doit help`. If no word follows, the tool doit prints its own help."""

    name = "help"
    page = "docs/specs.md"
    groups = ()
    doc_purpose = "explain a command, a stage, a variable or a task of your own; usage: doit help WORD"

    def execute(self, params: Any, args: list[str]) -> int:
        known = {name: _both(variable) for name, variable in variables.VARIABLES.items()}
        known |= {RUN: self.commands[RUN].doc_purpose, **named(self.app.foreign(), self.commands)}
        for word in (each.partition(":")[0] for each in args):
            if word not in known:
                raise SpecError(f"there is no help on '{word}'", {}, suggestion(word, known) or "doit list shows all.")
            print(f"{word}  {known[word]}")
            if word in NAMED:
                print(f"  doit '{word}:CASE'")
                _print_variables(("cases", "run", *(sites.VARIABLES if word == SITES else ())), STAGE_PAGES[word])
            elif word in self.commands:
                command = self.commands[word]
                for option in command.cmd_options:
                    short = f"-{option['short']}, " if option["short"] else ""
                    print(f"  {short}--{option['long']}  {option['help']}")
                _print_variables(command.groups, command.page)
        return 0


def _both(variable: Variable) -> str:
    return f"{variable.meaning}; elsewhere, {variable.elsewhere}" if variable.elsewhere else variable.meaning


def _print_variables(groups: tuple[str, ...], page: str) -> None:
    own = variables.named([name for name in groups if name not in _SHARED])
    if own:
        print_aligned({f"  {name}=": variable.meaning for name, variable in own.items()})
    if shared := [meaning for name, meaning in _SHARED.items() if name in groups]:
        print(f"  `doit variables` lists {'more' if own else 'the'} variables (NAME=VALUE) {' and '.join(shared)}")
    print(f"  see {page}")
