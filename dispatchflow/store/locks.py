"""File locks: they die with their process, whatever kills it, and hold between threads as between invocations."""

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
    """Hold the lock of this file, which is made when missing and never removed, or of this directory. `whom` says, of
    its open descriptor, for whom this waits."""
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
    """Who else holds it; None when only threads of this process do."""
    found = holders.of(descriptor)
    rest = [holder for holder in found if holder.process != os.getpid()]
    return None if found and not rest else rest


class Claims:
    """Keys that an invocation works at for long, taken without waiting: another one may be at the same.

    One byte of one file is one key (open-file-description locks), since thousands may be held at once. The byte as far
    behind it as the holder's process number says who holds it.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = _opened(path)

    def take(self, key: str) -> bool:
        """False while another invocation holds it."""
        try:
            self._set(fcntl.F_WRLCK, key)
        except BlockingIOError:
            return False
        return True

    def drop(self, key: str) -> None:
        self._set(fcntl.F_UNLCK, key)

    def holder(self, key: str) -> int:
        """The process that holds it, as its own container counts; 0 when nobody does."""
        request = _range(fcntl.F_WRLCK, _position(key) + 1, _A_KEY - 1)
        kind, _, start, _, _ = struct.unpack(_FLOCK, fcntl.fcntl(self._descriptor, fcntl.F_OFD_GETLK, request))
        return 0 if kind == fcntl.F_UNLCK else start - _position(key)

    def report_holder(self, key: str, what: str) -> None:
        """Say who holds this key, which somebody waits for: who does `what`."""
        if process := self.holder(key):
            whom = holders.named(process) if holders.is_ours(process) else holders.UNSEEN
            holders.say(f"waits for {whom}: it {what}")

    def _set(self, kind: int, key: str) -> None:
        pieces = [(0, _A_KEY)] if kind == fcntl.F_UNLCK else [(0, 1), (os.getpid(), 1)]
        for start, length in pieces:
            fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, _range(kind, _position(key) + start, length))


_A_KEY = 2**23
"""Bytes: Linux counts processes up to 2**22."""


def _position(key: str) -> int:
    """40 bits of the key, so that offsets stay below 2**63. Two keys that share them wait for each other, no more."""
    return int(key[:10], 16) * _A_KEY


class Users:
    """Who uses the objects of a store: makers at once, who removes some alone.

    A maker locks the byte of its process number, so that who waits can say for whom. No turnstile: who waits to remove
    something keeps nobody from beginning.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = _opened(path)

    def join(self, waiting: Callable[[int], None]) -> None:
        """Until this process ends: when its work is interrupted, its threads may still publish.

        `waiting` is told a process number before this waits, 0 when who removes something is waited for.
        """
        self._take(fcntl.F_RDLCK, os.getpid(), 1, waiting)

    @contextmanager
    def alone(self, waiting: Callable[[int], None]) -> Iterator[None]:
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
        os.fchmod(descriptor, 0o666)  # a turnstile is for every user, whatever the umask
        return descriptor
    except (IsADirectoryError, PermissionError):
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


class MachineLock:
    """Blocks run when nothing else of ours runs on this machine: not in this invocation, nor in another, of any user.

    Everything that loads the machine holds `busy`; a block holds `quiet`. Both are the locks of two directories, shared
    or alone: of /dev/shm, for all stores of this machine, and of the store, for containers that have a /dev/shm of
    their own. A directory, because a lock file can be removed while it is held (systemd does so at a logout): who opens
    the path then locks another file. A turnstile before each keeps a stream of busy ones from starving the one that
    waits for quiet; without its file only that is lost.
    """

    def __init__(self, store: Path) -> None:
        shared = _SHARED_MEMORY if _SHARED_MEMORY.is_dir() else Path(tempfile.gettempdir())
        # In this order everywhere: nobody holds one that somebody waits for with the other.
        places = {shared.resolve(): shared / "dispatchflow-turnstile.lock"}
        self._places = tuple({**places, store.resolve(): store / "locks" / "turnstile"}.items())

    @contextmanager
    def busy(self) -> Iterator[None]:
        with ExitStack() as held:
            if _mine.count == 0:  # within `busy` a second turnstile could wait for a block that waits for this thread
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
    """How often this thread holds the machine."""

    count = 0

    def __enter__(self) -> None:
        self.count += 1

    def __exit__(self, *unused: object) -> None:
        self.count -= 1


_mine = _Mine()


def _holder_in_words(place: Path, waiting: int) -> str | None:
    """For whom the machine is waited for: who holds the place's lock, or, of a turnstile, waits for it."""
    descriptor = _opened(place)
    try:
        found, doing = others(descriptor), "compiles or verifies"
        if not found:
            found, doing = others(waiting), "waits to measure"
    finally:
        os.close(descriptor)
    if found is None:
        return None
    if not found:
        return f"waits for the machine: {holders.UNSEEN}, uses it"
    first = found[0]
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return f"waits for the machine: {holders.named(first.process)} {'measures' if first.alone else doing}{more}"
