"""Facts about this machine that all projects of the user share: files in the user's cache directory.

DIRECTORY/1/
  machines/IDENTITY/KIND-KEY   a value, after a line with its digest
  objects/DIGEST               compiled modules to which values refer

IDENTITY names the machine, because several machines may share a home directory.

All of these files are optional. A damaged file counts as absent and is replaced. If the directory cannot be written, or
is on a network file system, the values are kept only in the project's store."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from dispatchflow.keys import Digest, digest_of
from dispatchflow.store.locks import locked
from dispatchflow.store.stamps import See, stamp
from dispatchflow.store.store import network_mount

_FORMAT = "1"
"""The version of the values' format; versions of dispatchflow with another format use another folder."""


class MachineFacts:
    """Facts about one machine; if the directory cannot be read or written, nothing is kept.

    Args:
        root: the directory; None if the user has none.
        machine: the machine's identity.
        see: a function that is called with each path before it is read; see `stamps.See`.
    """

    def __init__(self, root: Path | None, machine: str, see: See = stamp) -> None:
        self.root, self._see = root.absolute() if root else None, see
        self._machine = machine

    @cached_property
    def unusable(self) -> str | None:
        """The reason why this directory cannot keep facts; None if nothing speaks against it."""
        if self.root is None:
            return "there is no home directory"
        try:
            return "it is on a network file system" if network_mount(self.root) else None
        except (OSError, RuntimeError) as error:  # a loop of symbolic links
            return str(error)

    def remembered(self, name: str) -> str | None:
        """Return the value with this name; None if it is missing or damaged."""
        if self.root is None or self.unusable:
            return None
        path = self._path(self.root, name)
        self._see(os.fspath(path))
        return _read(path)

    def revise(self, name: str, revised: Callable[[str | None], str]) -> str | None:
        """Replace the value `name` by `revised(value)`; return the new value, None if it cannot be kept.

        `revised` gets None if there is no value yet. No other process can change the value meanwhile."""
        if self.root is None or self.unusable:
            return None
        path = self._path(self.root, name)
        with suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with locked(path.parent):
                before = _read(path)
                if (value := revised(before)) != before:
                    content = value.encode()
                    _publish(path, f"{digest_of(content)}\n".encode() + content)
                return value
        return None

    def object(self, digest: Digest) -> bytes | None:
        """Return an object's bytes; None if it is missing or damaged. A damaged object is removed."""
        if self.root is None or self.unusable:
            return None
        path = self._object(self.root, digest)
        with suppress(OSError):
            if digest_of(content := path.read_bytes()) == digest:
                return content
            path.unlink()
        return None

    def keep(self, digest: Digest, content: Path) -> None:
        """Copy the file `content` into this directory as the object `digest`, if it can be written there."""
        if self.root is None or self.unusable or (path := self._object(self.root, digest)).exists():
            return
        with suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with locked(path.parent):
                _publish(path, content.read_bytes())

    def _path(self, root: Path, name: str) -> Path:
        return root / _FORMAT / "machines" / self._machine / name.replace(":", "-")

    @staticmethod
    def _object(root: Path, digest: Digest) -> Path:
        return root / _FORMAT / "objects" / digest


def _read(path: Path) -> str | None:
    with suppress(OSError, ValueError):  # missing, unreadable, or not text
        digest, _, text = path.read_bytes().decode().partition("\n")
        if digest == digest_of(text.encode()):
            return text
    return None


def _publish(path: Path, content: bytes) -> None:
    """Write a file so that readers see either all of it or nothing.

    The file is not synced. A truncated file, after a power failure, counts as absent."""
    beside = path.with_name(f".{path.name}")  # one name is enough: the writer holds the directory's lock
    beside.write_bytes(content)
    beside.replace(path)
