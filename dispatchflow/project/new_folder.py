"""Create the folder that a user names with `out=`, and remove it if nothing is written to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def new_folder(folder: Path) -> Iterator[None]:
    """Make a folder and its missing parents for a `with` block that writes to the folder.

    After the block, each folder that this function created is removed if it is empty.

    Raises:
        OSError: the folder cannot be created.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    finally:
        for path in missing:
            with suppress(OSError):  # it is not empty, or was not created
                path.rmdir()
