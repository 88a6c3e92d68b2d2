"""Detect a full disk, and create the errors to raise for files that cannot be written."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from dispatchflow import units
from dispatchflow.errors import DiskFull, StoreError

MAKE_ROOM = "Make room (`doit store clean` needs none) and run again: finished work is recorded."

TO_BEGIN = "Make room, or set DISPATCHFLOW_STORE to a directory on a disk with free space: a new store needs a little."

ELSEWHERE = "Make it writable, or set DISPATCHFLOW_STORE to a directory that is; `doit report` only reads."

_FULL = (errno.ENOSPC, errno.EDQUOT)

TOO_LONG = "The path is too long: set DISPATCHFLOW_STORE to a shorter one."

_HINTS = {
    errno.EXDEV: "A link leads to another disk: objects/ and results/ must be on the store's; link the whole store.",
    errno.EISDIR: "A directory has the name of this file: move it away.",
    errno.ENOTDIR: "A file has the name of this directory: move it away, or set DISPATCHFLOW_STORE to another one.",
    errno.EIO: "The disk failed: see the system's log (`dmesg`).",
    errno.ENAMETOOLONG: TOO_LONG,
}
"""A dict from an error number (`errno`) to a hint for the user.

The hint for any other number is `ELSEWHERE`."""
_NEEDED_BYTES = 4 << 20
"""If a disk has less free space than this, the function `check` treats it as full."""


def is_full(error: OSError) -> bool:
    return error.errno in _FULL


def refused(error: OSError) -> StoreError:
    """Return the StoreError for an OSError that no other code handles. For a full disk, return a DiskFull."""
    facts = {"file": error.filename, "found": error.strerror or error}
    known = {n: v for n, v in facts.items() if v}
    if is_full(error):
        return DiskFull("the disk is full", known, MAKE_ROOM)
    return StoreError("the system refuses access to a file", known)


def unwritable(store: Path, error: OSError) -> StoreError:
    """Return the StoreError for a failed write to `store`. If the disk is full, return a DiskFull."""
    file = error.filename2 or error.filename  # for a rename, the new name
    there = next(place for place in (store, *store.parents) if place.exists())  # the store may not exist yet
    free = _free(os.statvfs(there)) if is_full(error) else None
    facts = {"store": store, "file": file, "free": free, "found": error.strerror or error}
    kind, way_out = (DiskFull, MAKE_ROOM) if is_full(error) else (StoreError, _HINTS.get(error.errno or 0, ELSEWHERE))
    if store.is_symlink() and not store.exists():
        facts |= {"file": None, "found": f"a link to {store.readlink()}, which does not exist"}
        way_out = "Create that directory, or remove the link."
    return kind("the store cannot be written", {n: v for n, v in facts.items() if v}, way_out)


def check(place: Path, said: str = "") -> None:
    """Raise DiskFull if a full disk may have caused a failure.

    Call this function before you record the failure. `place` is a path on the disk. `said` is the failure's error
    message.

    Raises:
        DiskFull: less than 4 MiB or no inode is free, or `said` contains the system's message for a full disk.
    """
    status = os.statvfs(place)
    full = status.f_bavail * status.f_frsize < _NEEDED_BYTES or _is_out_of_inodes(status)
    if full or any(os.strerror(code) in said for code in _FULL):
        raise DiskFull("the disk is full", {"store": place, "free": _free(status)}, MAKE_ROOM)


def _is_out_of_inodes(status: os.statvfs_result) -> bool:
    return status.f_files > 0 and status.f_favail == 0


def _free(status: os.statvfs_result) -> str:
    room = units.size(status.f_bavail * status.f_frsize)
    return f"{room}, but no inode: too many files" if _is_out_of_inodes(status) else room
