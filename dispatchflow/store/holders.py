"""Who holds a lock, in words: from /proc/locks, which needs nothing written and is never out of date."""

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
"""A process that waits longer says for whom."""
_AGAIN_S, _SAME_S = 5.0, 60.0

UNSEEN = "a process that cannot be seen from here, perhaps of another container"

_log = logging.getLogger(__name__)


class Holder(NamedTuple):
    process: int
    alone: bool
    """Else it shares the lock."""


def of(descriptor: int) -> list[Holder]:
    """Who holds the flock of this open file or directory. Processes of another PID namespace are not listed, and none
    where the kernel or the file system does not tell (btrfs lists its files under another device)."""
    status = os.fstat(descriptor)
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    found = []
    with suppress(OSError):
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.split()  # `1: FLOCK ADVISORY WRITE 1234 00:1b:1 0 EOF`; `->` is one that waits
            if words[1] == "FLOCK" and words[5] == place and int(words[4]) > 0:
                found.append(Holder(int(words[4]), words[3] == "WRITE"))
    return found


def named(process: int) -> str:
    """`process 1234 (user, directory)`, as far as the system tells; with `stopped` where it is, as by Ctrl-Z."""
    import pwd  # only where somebody waits

    place, known = Path(f"/proc/{process}"), []
    with suppress(OSError, KeyError):
        known.append(pwd.getpwuid(place.stat().st_uid).pw_name)
    with suppress(OSError):  # another user's
        known.append(str((place / "cwd").readlink()))
    with suppress(OSError):
        state = (place / "stat").read_text().rpartition(")")[2].split()[0]
        known += ["stopped"] * (state in "Tt")
    return f"process {process}" + (f" ({', '.join(known)})" if known else "")


def is_ours(process: int) -> bool:
    """Whether this number, which may be of another container, is that of another run of dispatchflow here."""
    with suppress(OSError):
        words = Path(f"/proc/{process}/cmdline").read_bytes()
        return process != os.getpid() and (b"doit" in words or b"dispatchflow" in words)
    return False


_said: dict[str, float] = {}
_saying = threading.Lock()


def say(line: str) -> None:
    """Once a minute: many threads may wait for the same, and in turn for one and another."""
    with _saying:
        now = time.monotonic()
        if now - _said.get(line, -_SAME_S) < _SAME_S:
            return
        _said[line] = now
    _log.warning("%s", line)


@contextmanager
def report_while_waiting(whom: Callable[[], str | None]) -> Iterator[None]:
    """While the body waits: what `whom` finds, first after `PATIENCE_S`; nothing while that is None."""
    done = threading.Event()

    def report() -> None:
        delay_s = PATIENCE_S
        while not done.wait(delay_s):
            with suppress(OSError):  # what it looks at is closed when the body ends, which may be now
                if (line := whom()) is not None:
                    say(line)
            delay_s = _AGAIN_S

    # Where the system gives no more threads, it waits without a word.
    with suppress(RuntimeError):
        threading.Thread(target=report, daemon=True).start()
    try:
        yield
    finally:
        done.set()
