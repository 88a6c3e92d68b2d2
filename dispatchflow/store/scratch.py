"""Private directories, each locked by the process that uses it.

The kernel releases the lock when the process ends, so an unlocked directory can be removed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def directory(parent: Path) -> Iterator[Path]:
    """Make a private directory in `parent`, yield its path, and remove it when the context ends."""
    path, descriptor = _locked_directory(parent)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)


def _locked_directory(parent: Path) -> tuple[Path, int]:
    while True:
        path = Path(tempfile.mkdtemp(dir=parent))
        with suppress(FileNotFoundError):  # `sweep` removed it before it was locked
            descriptor = _opened(path)
            # Processes in other containers see this lock. A PID in the directory's name would be of no use to them.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if path.exists():
                return path, descriptor
            os.close(descriptor)


def sweep(parent: Path) -> None:
    """Remove the directories in `parent` that no process locks. Killed processes left them behind."""
    for path in parent.iterdir():
        with suppress(OSError):  # in use; not a directory; another user's; removed by another process just now
            descriptor = _opened(path)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(descriptor)


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
