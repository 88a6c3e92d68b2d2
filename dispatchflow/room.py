"""A disk without room, and a file that the system refuses: one message each."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from dispatchflow.errors import DiskFull, StoreError
from dispatchflow.reports import units

MAKE_ROOM = "Make room (`doit store clean` needs none) and run again: what was finished is recorded."

TO_BEGIN = "Make room, or set DISPATCHFLOW_STORE to a directory on a disk that has some: a new store needs a little."

ELSEWHERE = "Make it writable, or set DISPATCHFLOW_STORE to a directory that is; `doit report` works without."

_FULL = (errno.ENOSPC, errno.EDQUOT)
_NEEDED_BYTES = 4 << 20
"""With less than this a tool that failed has probably failed for lack of room, whatever it said."""


def is_full(error: OSError) -> bool:
    return error.errno in _FULL


def refused(error: OSError) -> StoreError:
    """For an error that has no better place."""
    facts = {"file": error.filename, "found": error.strerror or error}
    known = {n: v for n, v in facts.items() if v}
    if is_full(error):
        return DiskFull("the disk is full", known, MAKE_ROOM)
    return StoreError("the system refuses a file", known)


def unwritable(store: Path, error: OSError) -> StoreError:
    """For an error of the store itself: no failure of a case, and every case would fail so."""
    file = error.filename2 or error.filename  # of a renaming, the new name
    there = next(place for place in (store, *store.parents) if place.exists())  # not even its directory may be
    free = units.size(_free_bytes(os.statvfs(there))) if is_full(error) else None
    facts = {"store": store, "file": file, "free": free, "found": error.strerror or error}
    kind, way_out = (DiskFull, MAKE_ROOM) if is_full(error) else (StoreError, ELSEWHERE)
    return kind("the store cannot be written", {n: v for n, v in facts.items() if v}, way_out)


def check(place: Path, said: str = "") -> None:
    """After a failure, before it is taken for the failure of one case: every case would fail so.

    Args:
        said: what the tool, or the system, said.

    Raises:
        DiskFull: the disk of `place` is.
    """
    status = os.statvfs(place)
    free = _free_bytes(status)
    no_inodes = status.f_files > 0 and status.f_favail == 0
    if free < _NEEDED_BYTES or no_inodes or any(os.strerror(code) in said for code in _FULL):
        raise DiskFull("the disk is full", {"store": place, "free": units.size(free)}, MAKE_ROOM)


def _free_bytes(status: os.statvfs_result) -> int:
    return status.f_bavail * status.f_frsize
