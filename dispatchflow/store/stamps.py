"""Detect whether a file has changed since it was read, without reading it again."""

from __future__ import annotations

import os
from collections.abc import Callable

ABSENT = "absent"

See = Callable[[str], str]
"""A function such as `stamp`, which returns a text that changes when the file at a given path changes.

The function may also record the text, so that later changes of the file are found."""


def stamp(path: str) -> str:
    """Return a text that changes when the file or directory `path` changes.

    A directory changes when an entry is added or removed. If nothing exists at `path`, the text is `ABSENT`."""
    try:
        status = os.stat(path)  # noqa: PTH116 (faster, and called for hundreds of files)
    except OSError:
        return ABSENT
    return f"{status.st_dev} {status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
