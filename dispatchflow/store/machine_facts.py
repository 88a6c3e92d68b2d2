"""What is known of this machine, kept for the user and all projects: files in the user's cache directory.

DIRECTORY/1/
  machines/IDENTITY/KIND-KEY   a value behind its digest; one directory for each machine, of which a home may serve many
  objects/DIGEST               compiled modules that values name

Nothing here is needed. What is damaged counts as absent, and is written anew; where the directory cannot be written, or
lies on a network file system, the project's store alone has what it has measured.
"""

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
"""Of what the values mean: environments with other versions of dispatchflow have the same directory."""


class MachineFacts:
    """Of the machine with this identity. `root`: None where the user has no such directory. `see` is told what is
    looked at. Nothing raises because of the directory."""

    def __init__(self, root: Path | None, machine: str, see: See = stamp) -> None:
        self.root, self._see = root.absolute() if root else None, see
        self._machine = machine

    @cached_property
    def unusable(self) -> str | None:
        """Why nothing is kept here, as far as that is known before something is written."""
        if self.root is None:
            return "there is no home directory"
        try:
            return "it lies on a network file system" if network_mount(self.root) else None
        except (OSError, RuntimeError) as error:  # a loop of symbolic links
            return str(error)

    def remembered(self, name: str) -> str | None:
        """None where nothing is known, or not any more."""
        if self.root is None or self.unusable:
            return None
        path = self._path(self.root, name)
        self._see(os.fspath(path))
        return _read(path)

    def revise(self, name: str, revised: Callable[[str | None], str]) -> str | None:
        """Keep what becomes of the value, and return it: no other process's comes between. None where it cannot be
        kept."""
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
        """None where it is not here, or not whole: then it is dropped."""
        if self.root is None or self.unusable:
            return None
        path = self._object(self.root, digest)
        with suppress(OSError):
            if digest_of(content := path.read_bytes()) == digest:
                return content
            path.unlink()
        return None

    def keep(self, digest: Digest, content: Path) -> None:
        """This object, from where it is; unless it is here already, or cannot be kept."""
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
    with suppress(OSError, ValueError):  # absent, unreadable, no text
        digest, _, text = path.read_bytes().decode().partition("\n")
        if digest == digest_of(text.encode()):
            return text
    return None


def _publish(path: Path, content: bytes) -> None:
    """Whole or not at all, for who reads. Not synced: what a power failure leaves half is damaged, hence absent."""
    beside = path.with_name(f".{path.name}")  # whoever writes has the lock of the directory
    beside.write_bytes(content)
    beside.replace(path)
