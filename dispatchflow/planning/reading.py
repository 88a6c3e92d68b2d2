"""Define the interface through which the parser of specs reads the files that a spec names."""

from __future__ import annotations

from typing import Protocol

from dispatchflow.keys import Digest


class Read(Protocol):
    """Reads files and folders by their paths relative to the spec.

    The methods raise OSError if the file or folder cannot be read."""

    def __call__(self, name: str, /) -> tuple[str, bytes]:
        """Return the path by which the file can be opened, and the file's bytes."""
        ...

    def digest(self, name: str, /) -> tuple[str, Digest]:
        """Return the path by which the file can be opened, and the digest of the file's bytes.

        The file is not held in memory as a whole."""
        ...

    def entries(self, folder: str, /) -> list[tuple[str, bool]]:
        """Return a pair (name, whether the entry is a folder) for each entry of `folder`, sorted by name."""
        ...
