"""Find out from /proc/locks which processes hold a lock, and describe these processes."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

PATIENCE_S = 1.0
"""The time in s that a process waits for a lock before it reports which process holds the lock."""
_AGAIN_S, _SAME_S = 5.0, 60.0

UNSEEN = "a process that is not visible from here, perhaps in another container"

_log = logging.getLogger(__name__)


class Holder(NamedTuple):
    process: int
    alone: bool
    """True for an exclusive lock, False for a shared lock."""


def of(descriptor: int) -> list[Holder]:
    """Return the processes that hold an flock on the open file or directory `descriptor`.

    Processes in other PID namespaces (containers) are left out. On some file systems, such as btrfs, the result is
    always empty."""
    status = os.fstat(descriptor)
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    found = []
    with suppress(OSError):
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.split()  # `1: FLOCK ADVISORY WRITE 1234 00:1b:1 0 EOF`; a waiting process has `->`
            if words[1] == "FLOCK" and words[5] == place and int(words[4]) > 0:
                found.append(Holder(int(words[4]), words[3] == "WRITE"))
    # A process may hold several locks, and the kernel may list a lock twice while other locks change.
    return list(dict.fromkeys(found))


def named(process: int) -> str:
    """Describe the process with the PID `process`, such as `process 1234 (user, /working/directory)`."""
    import pwd  # needed only while waiting

    place, known = Path(f"/proc/{process}"), []
    with suppress(OSError, KeyError):
        known.append(pwd.getpwuid(place.stat().st_uid).pw_name)
    with suppress(OSError):  # another user's process
        known.append(str((place / "cwd").readlink()))
    with suppress(OSError):
        state = (place / "stat").read_text().rpartition(")")[2].split()[0]
        known += ["stopped"] * (state in "Tt")
    return f"process {process}" + (f" ({', '.join(known)})" if known else "")


def is_ours(process: int) -> bool:
    """Return whether `process` is the PID of a run of dispatchflow other than this one.

    A run is recognized by the text `doit` or `dispatchflow` in its command line."""
    with suppress(OSError):
        words = Path(f"/proc/{process}/cmdline").read_bytes()
        return process != os.getpid() and (b"doit" in words or b"dispatchflow" in words)
    return False


_said: dict[str, float] = {}
_saying = threading.Lock()


def say(line: str) -> None:
    """Log `line`, unless the same line was logged in the last minute."""
    with _saying:
        now = time.monotonic()
        if now - _said.get(line, -_SAME_S) < _SAME_S:
            return
        _said[line] = now
    _log.warning("%s", line)


@contextmanager
def report_while_waiting(whom: Callable[[], str | None]) -> Iterator[None]:
    """Log which process holds a lock, while the body of this context waits for the lock.

    The function `whom` returns the text to log, which describes the holder. If it returns None, nothing is logged. The
    function is first called after `PATIENCE_S` seconds."""
    done = threading.Event()

    def report() -> None:
        delay_s = PATIENCE_S
        while not done.wait(delay_s):
            with suppress(OSError):  # the body may have ended and closed the descriptor that `whom` uses
                if (line := whom()) is not None:
                    say(line)
            delay_s = _AGAIN_S

    # If the system cannot start another thread, wait without a report.
    with suppress(RuntimeError):
        threading.Thread(target=report, daemon=True).start()
    try:
        yield
    finally:
        done.set()
