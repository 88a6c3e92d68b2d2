"""Print to standard output, and report a closed pipe, a closed terminal or a full disk."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from dispatchflow.errors import DispatchflowError, SpecError

if TYPE_CHECKING:
    from pathlib import Path


class OutputLost(DispatchflowError):
    """Standard output cannot be written.

    The exit code is 128 + SIGPIPE if the reader closed the pipe, 128 + SIGHUP if the terminal is gone, and otherwise 2.
    """

    def __init__(self, error: OSError) -> None:
        hint = "What was finished is recorded; the next run goes on."
        super().__init__("standard output cannot be written", {"found": error.strerror or str(error)}, hint)
        if error.errno == errno.EPIPE:
            self.exit_code = 128 + signal.SIGPIPE
        elif error.errno == errno.EIO:
            self.exit_code = 128 + signal.SIGHUP


@contextmanager
def writing() -> Iterator[None]:
    """Raise OutputLost if the `with` block, which writes to standard output, raises an OSError."""
    try:
        yield
    except OSError as error:
        raise OutputLost(error) from error


def say(line: str) -> None:
    with writing():
        print(line, flush=True)


def say_last(text: str) -> None:
    """Print the last text of a run. A closed pipe (`doit … | head`) is ignored."""
    with writing(), suppress(BrokenPipeError):
        print(text, flush=True)


def open_streams() -> None:
    """Connect standard streams that are closed (`doit 2>&-`) to /dev/null.

    Otherwise the next file that is opened would become the standard stream."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115


def to_file(text: str, out: str) -> None:
    from pathlib import Path  # a run without out= does not need it

    try:
        Path(out).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise unwritable(Path(out), error) from error


def say_or_write(text: str, out: str | None) -> None:
    """Print `text`, the result of a command. If `out` is given, write `text` to this file instead.

    Raises:
        SpecError: the file cannot be written.
    """
    if out is None:
        say_last(text)
    else:
        to_file(text, out)


def unwritable(out: Path, error: OSError, variable: str = "out") -> SpecError:
    import shlex

    problem = f"{variable}={out} cannot be written"
    if isinstance(error, FileNotFoundError) and not out.parent.exists():
        way_out = f"Create it: mkdir -p {shlex.quote(str(out.parent))}."
        return SpecError(problem, {"found": f"no folder '{out.parent}'"}, way_out)
    return SpecError(problem, {"found": error.strerror})
