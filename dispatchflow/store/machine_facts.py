"""Facts about this machine that all projects of a user share, in the user's cache directory.

DIRECTORY/1/
  machines/IDENTITY/KIND-KEY   a line with the digest of a value, then the value
  objects/DIGEST               compiled modules to which values refer

IDENTITY names the machine, and KIND-KEY names the value. A damaged file counts as absent."""

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
"""The version of the format in which the facts are stored. It is also the name of their folder."""


class MachineFacts:
    """Reads and changes the facts about one machine, such as its highest measured speed."""

    def __init__(self, root: Path | None, machine: str, see: See = stamp) -> None:
        self.root, self._see = root.absolute() if root else None, see
        self._machine = machine

    @cached_property
    def unusable(self) -> str | None:
        """The reason why facts cannot be kept, such as "there is no home directory"; None if none is known."""
        if self.root is None:
            return "there is no home directory"
        try:
            return "it is on a network file system" if network_mount(self.root) else None
        except (OSError, RuntimeError) as error:  # a loop of symbolic links
            return str(error)

    def remembered(self, name: str) -> str | None:
        """Return the value stored under `name`, or None if the value's file is missing or damaged."""
        if self.root is None or self.unusable:
            return None
        path = self._path(self.root, name)
        # Before the file is read, so that later changes are noticed (see `stamps.See`).
        self._see(os.fspath(path))
        return _read(path)

    def revise(self, name: str, revised: Callable[[str | None], str]) -> str | None:
        """Replace the value that is stored under `name`, and return the new value.

        `revised` computes the new value from the old value, or from None if no value is stored. Meanwhile no other
        process can change the value. Returns None if the directory for the facts cannot be used."""
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
        """Return the content of the compiled module whose digest is `digest`.

        Returns None if the module's file is missing or damaged. A damaged file is removed."""
        if self.root is None or self.unusable:
            return None
        path = self._object(self.root, digest)
        with suppress(OSError):
            if digest_of(content := path.read_bytes()) == digest:
                return content
            path.unlink()
        return None

    def keep(self, digest: Digest, content: Path) -> None:
        """Keep a copy of the file `content`, a compiled module whose digest is `digest`.

        `object(digest)` then returns the file's content. Nothing happens if a file for `digest` exists, or if the
        directory for the facts cannot be written."""
        if self.root is None or self.unusable or (path := self._object(self.root, digest)).exists():
            return
        with suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with locked(path.parent):
                _publish(path, content.read_bytes())

    def _path(self, root: Path, name: str) -> Path:
        # Several machines may share a home directory.
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
    beside = path.with_name(f".{path.name}")  # one name is enough: the writer holds the directory's lock
    beside.write_bytes(content)  # not synced: after a power failure, a truncated file counts as absent
    beside.replace(path)
