"""Standard output, which may be closed, full, or a terminal that is gone."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from dispatchflow.errors import DispatchflowError


class OutputLost(DispatchflowError):
    """What a run prints cannot be written. Its exit code is that of a program which the system ended for this."""

    def __init__(self, error: OSError) -> None:
        hint = "What was finished is recorded; the next run goes on."
        super().__init__("standard output cannot be written", {"found": error.strerror or str(error)}, hint)
        if error.errno == errno.EPIPE:
            self.exit_code = 128 + signal.SIGPIPE
        elif error.errno == errno.EIO:
            self.exit_code = 128 + signal.SIGHUP


@contextmanager
def writing() -> Iterator[None]:
    """What the system refuses within is standard output's, and no file's.

    Raises:
        OutputLost: it was refused.
    """
    try:
        yield
    except OSError as error:
        raise OutputLost(error) from error


def say(line: str) -> None:
    """Print it now.

    Raises:
        OutputLost: it cannot be written.
    """
    with writing():
        print(line, flush=True)


def say_last(text: str) -> None:
    """As `say`; a reader that has seen enough misses nothing."""
    with writing(), suppress(BrokenPipeError):
        print(text, flush=True)


def open_streams() -> None:
    """A stream that was closed (`doit 2>&-`) goes nowhere: the next file that is opened would get its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115
