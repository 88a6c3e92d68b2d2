"""The errors that a user sees, with their exit codes.

DispatchflowError           exit 2
├── SpecError               a spec file or a variable has something that is not allowed
├── NothingMatched          exit 3, a pattern matches no case or task
├── StoreError              the store cannot be used
│   ├── DiskFull            the disk is full; finished work is recorded
│   └── UnreadableObject    a stored object's path is not a file, or the system refuses to read it
├── ToolchainError          no usable compiler or runtime
└── ToolError               exit 1, one tool of one case failed; the other cases go on
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

# These patterns are strings, compiled on first use, because most runs print no error.
_STEERING = r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"
"""A pattern for escape sequences that color a terminal's text, move its cursor, or set its title."""

_CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f]"


def plain(text: str) -> str:
    """Remove terminal escape sequences from `text`, and escape other control characters."""
    return escaped(re.sub(_STEERING, "", text))


def escaped(text: str) -> str:
    r"""Replace control characters by visible escapes such as `\x1b`."""
    return re.sub(_CONTROL, lambda match: f"\\x{ord(match[0]):02x}", text)


class DispatchflowError(Exception):
    """A problem in one line, facts that locate the problem, and a hint.

    Args:
        problem: in lower case, with the word at fault in quotes: `unknown operation 'conv3d'`.
        facts: values to print below the problem, by label.
        hint: one sentence that states what to do.
    """

    exit_code: int = 2

    def __init__(self, problem: str, facts: Mapping[str, object] | None = None, hint: str = "") -> None:
        self.problem = escaped(problem)
        super().__init__(self.problem)
        self.facts = dict(facts or {})
        self.hint = hint

    def __str__(self) -> str:
        width = max(map(len, self.facts), default=0)
        lines = [self.problem + (":" if self.facts else "")]
        lines += [f"  {label:<{width}}  {escaped(str(value))}" for label, value in self.facts.items()]
        return "\n".join([*lines, escaped(self.hint)] if self.hint else lines)


class SpecError(DispatchflowError):
    pass


class NothingMatched(DispatchflowError):
    exit_code = 3


class StoreError(DispatchflowError):
    pass


class DiskFull(StoreError):
    pass


class UnreadableObject(StoreError):
    pass


class ToolchainError(DispatchflowError):
    pass


class ToolError(DispatchflowError):
    exit_code = 1


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return `Did you mean 'x'?`, where `x` is the known word that is most similar to `word`.

    If no known word is similar, `x` is the first known word that begins with `word`. If no known word begins with
    `word`, the result is empty."""
    import difflib  # only on the way to an error message

    known = list(known)
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    near += [other for other in known if word and other.startswith(word)]
    return f"Did you mean '{near[0]}'?" if near else ""


def in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def raised(error: BaseException) -> str:
    """Describe an exception of user code: `ZeroDivisionError: division by zero (matmul.py, line 30)`."""
    import traceback  # only on the way to an error message
    from pathlib import PurePath

    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({PurePath(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}{place}"


def written(value: object) -> str:
    """Return a value as a spec spells it: `'yes'`, `3`, `true`."""
    return str(value).lower() if isinstance(value, bool) else repr(value)
