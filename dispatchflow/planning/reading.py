"""The protocol by which the parser reads the files that a spec names."""

from __future__ import annotations

from typing import Protocol

from dispatchflow.keys import Digest


class Read(Protocol):
    """Reads files by their paths relative to the spec; raises OSError for a file that cannot be read."""

    def __call__(self, name: str, /) -> tuple[str, bytes]:
        """Return the path by which the file can be opened, and the file's bytes."""
        ...

    def digest(self, name: str, /) -> tuple[str, Digest]:
        """Return the path by which the file can be opened, and the digest of the file's bytes.

        The file is not held in memory as a whole."""
        ...

    def entries(self, folder: str, /) -> list[tuple[str, bool]]:
        """Return (name, whether the entry is a folder) for each entry of `folder`, sorted."""
        ...
