"""Split the command line into options, words and variables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dispatchflow.errors import SpecError
from dispatchflow.units import whole


def _jobs(text: str) -> int:
    if not 0 < (whole(text) or 0) <= 1024:
        hint = "Leave -n out to use all cores."
        raise SpecError(f"-n cannot be '{text}'", {"allowed": "1 … 1024"}, hint)
    return int(text)


JOBS = {
    "name": "jobs",
    "short": "n",
    "long": "process",
    "type": _jobs,
    "default": 0,
    "help": "number of parallel compiles and verifications [default: the number of cores]",
}

_VARIABLE = re.compile(r"[A-Za-z_]\w*=")
_WITH_VALUE = tuple(f"{dash}{JOBS[length]}" for dash, length in (("-", "short"), ("--", "long")))
_ONLY_JOBS = re.compile(r"(-n ?[1-9]\d*|--process[= ][1-9]\d*)?")


@dataclass(frozen=True)
class CommandLine:
    """A parsed command line."""

    before: Mapping[str, Any]
    """The options -f, -d and -k before the first word. doit has applied these options."""
    flags: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    program: list[str] = field(default_factory=list)
    """The command line of another program, given after `--`, unchanged."""

    @property
    def plain(self) -> bool:
        """True if the line has no options except -n (parallel jobs), and no program after `--`."""
        return not self.program and _ONLY_JOBS.fullmatch(" ".join(self.flags)) is not None


def read(argv: Sequence[str]) -> CommandLine:
    """Parse a command line; options may be anywhere, as in most tools.

    Raises:
        SpecError: a variable is given twice, or nothing follows `--`.
    """
    before, rest = _before(argv) if argv and argv[0].startswith("-") else ({}, argv)
    line, waiting = CommandLine(before), iter(rest)
    for word in waiting:
        if word == "--":
            line.program.extend(waiting)
            if not line.program:
                raise SpecError("no program follows --", {"form": "doit trace -- python my_script.py"})
        elif match := _VARIABLE.match(word):
            name, value = match[0][:-1], word[match.end() :]
            if name in line.variables:
                hint = "Leave one out; several values are one word, m=64,128."
                given = f"{name}={line.variables[name]} {word}"
                raise SpecError(f"'{name}=' is given twice", {"given": given}, hint)
            line.variables[name] = value
        elif word.startswith("-"):
            line.flags.extend([word, next(waiting, "")] if word in _WITH_VALUE else [word])
        else:
            line.words.append(word)
    return line


def _before(argv: Sequence[str]) -> tuple[Mapping[str, Any], Sequence[str]]:
    from doit.cmd_base import DodoTaskLoader
    from doit.cmdparse import CmdOption, CmdParse, CmdParseError

    try:
        before, rest = CmdParse([CmdOption(option) for option in DodoTaskLoader.cmd_options]).parse_only(argv)
    except CmdParseError:
        return {}, argv
    return before, rest
