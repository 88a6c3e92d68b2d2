"""Private directories, each locked by who uses it: one that nobody locks is nobody's.

The lock is the kernel's, so that it also tells of a user in another container, whose process number would say nothing
here, and it ends with its process. Tools do not inherit it (close-on-exec).
"""

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
    """A new one, gone afterwards."""
    path, descriptor = _locked_directory(parent)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)


def _locked_directory(parent: Path) -> tuple[Path, int]:
    while True:
        path = Path(tempfile.mkdtemp(dir=parent))
        with suppress(FileNotFoundError):  # `sweep` came before the lock
            descriptor = _opened(path)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if path.exists():
                return path, descriptor
            os.close(descriptor)


def sweep(parent: Path) -> None:
    """Remove what killed processes left."""
    for path in parent.iterdir():
        with suppress(OSError):  # in use; no directory; another user's; removed by somebody just now
            descriptor = _opened(path)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(descriptor)


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
