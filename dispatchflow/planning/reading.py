"""Read the files that a spec names; the caller of the parser gives an object that does."""

from __future__ import annotations

from typing import Protocol

from dispatchflow.keys import Digest


class Read(Protocol):
    """Reads files by their paths relative to the spec. It raises OSError."""

    def __call__(self, name: str, /) -> tuple[str, bytes]:
        """Return (its place, its bytes)."""
        ...

    def digest(self, name: str, /) -> tuple[str, Digest]:
        """Return (its place, the digest of its bytes), without holding a large file in memory."""
        ...

    def entries(self, folder: str, /) -> list[tuple[str, bool]]:
        """Return the names in a folder, sorted, each with whether it is a folder itself."""
        ...
