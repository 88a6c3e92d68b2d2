"""File locks: they die with their process, whatever kills it, and hold between threads as between invocations."""

from __future__ import annotations

import fcntl
import os
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_SHARED_MEMORY = Path("/dev/shm")


@contextmanager
def locked(path: Path, exclusive: bool = True, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the lock of this file, which is made when missing and never removed. `waiting` is called if this waits."""
    descriptor, kind = _opened(path), fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    try:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(descriptor, kind)
        yield
    finally:
        os.close(descriptor)


class Claims:
    """Keys that an invocation works at for long, taken without waiting: another one may be at the same.

    One byte of one file is one key (open-file-description locks), since thousands may be held at once.
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

    def _set(self, kind: int, key: str) -> None:
        position = int(key[:15], 16)  # below 2**60: an offset is a signed 64-bit number
        fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, _range(kind, position, 1))


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
        os.fchmod(descriptor, 0o666)  # the machine's lock is for every user, whatever the umask
        return descriptor
    except PermissionError:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


class Machine:
    """Blocks run when nothing else of ours runs on this machine: not in this invocation, nor in another, of any user.

    Everything that loads the machine holds `busy`; a block holds `quiet`. The turnstile keeps a stream of busy ones
    from starving the one that waits for quiet.
    """

    def __init__(self) -> None:
        folder = _SHARED_MEMORY if _SHARED_MEMORY.is_dir() else Path(tempfile.gettempdir())
        self._lock = folder / "dispatchflow-machine.lock"
        self._turnstile = folder / "dispatchflow-turnstile.lock"

    @contextmanager
    def busy(self) -> Iterator[None]:
        with locked(self._turnstile):
            pass
        with locked(self._lock, exclusive=False):
            yield

    @contextmanager
    def quiet(self) -> Iterator[None]:
        with locked(self._turnstile), locked(self._lock):
            yield
