"""Whether a file is still the one that was read, without reading it again."""

from __future__ import annotations

import os
from collections.abc import Callable

ABSENT = "absent"

See = Callable[[str], str]
"""A path → its stamp, which the caller may remember."""


def stamp(path: str) -> str:
    """Changes when the file does, and when a directory gains or loses a name; `ABSENT` where nothing is."""
    try:
        status = os.stat(path)  # noqa: PTH116 (of hundreds)
    except OSError:
        return ABSENT
    return f"{status.st_dev} {status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
