"""File locks between processes, and between threads of one process.

The kernel releases a lock when the process that holds the lock ends."""

from __future__ import annotations

import fcntl
import os
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from dispatchflow.store import holders

_SHARED_MEMORY = Path("/dev/shm")


@contextmanager
def locked(
    path: Path, exclusive: bool = True, whom: Callable[[int], str | None] = lambda descriptor: None
) -> Iterator[None]:
    """Hold an flock on the file or directory `path` while the body of this context runs.

    A missing file is created. While this thread waits, a description of the lock's holder is logged. The
    function `whom` gets the open descriptor of `path`, and returns this description or None."""
    descriptor, kind = _opened(path), fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    try:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            with holders.report_while_waiting(lambda: whom(descriptor)):
                fcntl.flock(descriptor, kind)
        yield
    finally:
        os.close(descriptor)


def others(descriptor: int) -> list[holders.Holder] | None:
    """Return the processes other than this one that hold an flock on the open file `descriptor`.

    The result is None if only this process holds the lock. It is empty if the holders are not visible from here, for
    example in another container."""
    found = holders.of(descriptor)
    rest = [holder for holder in found if holder.process != os.getpid()]
    return None if found and not rest else rest


class Claims:
    """Locks on the keys (hashes) of long actions, such as measurements.

    A process that cannot get such a lock does not wait: `take` returns False at once."""

    def __init__(self, path: Path) -> None:
        self._descriptor = _opened(path)

    def take(self, key: str) -> bool:
        """Try to lock `key`, and return whether this succeeded."""
        try:
            self._set(fcntl.F_WRLCK, key)
        except BlockingIOError:
            return False
        return True

    def drop(self, key: str) -> None:
        self._set(fcntl.F_UNLCK, key)

    def holder(self, key: str) -> int:
        """Return the PID of the process that holds `key`, or 0 if the key is free.

        If the process runs in another container, the result is its PID in that container."""
        request = _range(fcntl.F_WRLCK, _position(key) + 1, _A_KEY - 1)
        kind, _, start, _, _ = struct.unpack(_FLOCK, fcntl.fcntl(self._descriptor, fcntl.F_OFD_GETLK, request))
        return 0 if kind == fcntl.F_UNLCK else start - _position(key)

    def report_holder(self, key: str, what: str) -> None:
        """Log which process holds `key`, if any. `what` says what the process does, such as "measures a case"."""
        if process := self.holder(key):
            whom = holders.named(process) if holders.is_ours(process) else holders.UNSEEN
            holders.say(f"waits for {whom}: it {what}")

    def _set(self, kind: int, key: str) -> None:
        pieces = [(0, _A_KEY)] if kind == fcntl.F_UNLCK else [(0, 1), (os.getpid(), 1)]
        for start, length in pieces:
            fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, _range(kind, _position(key) + start, length))


_A_KEY = 2**23
"""The number of the lock file's bytes that belong to each key.

The process that holds a key locks two of the key's bytes: the first byte, and the byte whose offset is the process's
PID. A PID is at most 2**22."""


def _position(key: str) -> int:
    # Keys with the same first 40 bits share a lock. An action may then wait for an unrelated one.
    return int(key[:10], 16) * _A_KEY


class Users:
    """A reader-writer lock for a store. Runs are the readers, and `doit store clean` is the writer."""

    def __init__(self, path: Path) -> None:
        self._descriptor = _opened(path)

    def join(self, waiting: Callable[[int], None]) -> None:
        """Share the lock with other runs until this process ends.

        If `doit store clean` holds the lock, this method calls `waiting(0)` and then waits."""
        # A run locks the byte whose offset is the run's PID, so that `alone` can tell the PID.
        self._take(fcntl.F_RDLCK, os.getpid(), 1, waiting)

    @contextmanager
    def alone(self, waiting: Callable[[int], None]) -> Iterator[None]:
        """Hold the lock exclusively while the body of this context runs.

        If another process holds the lock, this method calls `waiting` and then waits. The argument of `waiting` is the
        PID of a run, or 0 if another `doit store clean` holds the lock."""
        self._take(fcntl.F_WRLCK, 0, _TO_THE_END, waiting)
        try:
            yield
        finally:
            fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, _range(fcntl.F_UNLCK, 0, _TO_THE_END))

    def _take(self, kind: int, start: int, length: int, waiting: Callable[[int], None]) -> None:
        request = _range(kind, start, length)
        try:
            fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, request)
        except BlockingIOError:
            holder = struct.unpack(_FLOCK, fcntl.fcntl(self._descriptor, fcntl.F_OFD_GETLK, request))
            # The first byte of the holder's range: a run's PID, or 0 for `doit store clean`.
            waiting(holder[2])
            fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLKW, request)


_FLOCK = "hhqqi4x"
_TO_THE_END = 0


def _range(kind: int, start: int, length: int) -> bytes:
    return struct.pack(_FLOCK, kind, os.SEEK_SET, start, length, 0)


def _opened(path: Path) -> int:
    # Without O_CREAT first: Linux refuses O_CREAT on another user's file in a sticky directory (fs.protected_regular).
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        os.fchmod(descriptor, 0o666)  # users share some of these files (`MachineLock`); os.open applied the umask
        return descriptor
    except (IsADirectoryError, PermissionError):
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


class MachineLock:
    """A lock for all users of the machine: while one run measures, no other run of dispatchflow works.

    For other work, such as compiles, processes share the lock. While a process waits to measure, a second lock, the
    turnstile, stops new work."""

    def __init__(self, store: Path) -> None:
        shared = _SHARED_MEMORY if _SHARED_MEMORY.is_dir() else Path(tempfile.gettempdir())
        # Locked in this order everywhere, so that two processes never wait for each other.
        places = {shared.resolve(): shared / "dispatchflow-turnstile.lock"}
        self._places = tuple({**places, store.resolve(): store / "locks" / "turnstile"}.items())

    @contextmanager
    def busy(self) -> Iterator[None]:
        with ExitStack() as held:
            if _mine.count == 0:  # in a nested `busy`, the turnstile may be held by a process that waits for this one
                for place, turnstile in self._places:
                    with locked(turnstile, whom=partial(_holder_in_words, place)):
                        pass
                    held.enter_context(locked(place, exclusive=False, whom=partial(_holder_in_words, place)))
            with _mine:
                yield

    @contextmanager
    def quiet(self) -> Iterator[None]:
        with ExitStack() as held:
            for place, turnstile in self._places:
                held.enter_context(locked(turnstile, whom=partial(_holder_in_words, place)))
                held.enter_context(locked(place, whom=partial(_holder_in_words, place)))
            with _mine:
                yield


class _Mine(threading.local):
    count = 0

    def __enter__(self) -> None:
        self.count += 1

    def __exit__(self, *unused: object) -> None:
        self.count -= 1


_mine = _Mine()


def _holder_in_words(place: Path, waiting: int) -> str | None:
    """Say which process this process waits for, such as `waiting for process 7, which is measuring`."""
    descriptor = _opened(place)
    try:
        found, doing = others(descriptor), "compiling or verifying"
        if not found:
            # No other process holds `place`. `waiting` may be the turnstile, held by a process that waits to measure.
            found, doing = others(waiting), "waiting to measure"
    finally:
        os.close(descriptor)
    # Only this process holds the lock.
    if found is None:
        return None
    if not found:
        return f"waiting for {holders.UNSEEN}"
    first = found[0]
    doing = "measuring" if first.alone else doing
    if len(found) == 1:
        return f"waiting for {holders.named(first.process)}, which is {doing}"
    beside = f"{len(found) - 1} other{'s' * (len(found) > 2)}"
    return f"waiting for {holders.named(first.process)} and {beside}, which are {doing}"
