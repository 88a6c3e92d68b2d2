"""Find the arrays of a `.npz` file that a spec selects with a text such as `ref.npz:in*`."""

from __future__ import annotations

import io
import re
from fnmatch import fnmatchcase

_WRITTEN = re.compile(r"(.*\.npz)(?::(.*))?")


def split(written: str) -> tuple[str, str] | None:
    """Split a text such as `ref.npz:in*` into the file `ref.npz` and the pattern `in*`.

    For `ref.npz` alone, the pattern is empty. Returns None if the text names no `.npz` file."""
    match = _WRITTEN.fullmatch(written)
    return (match[1], match[2] or "") if match else None


def members(content: bytes) -> list[str]:
    """Return the names of the arrays in a `.npz` file, in natural order: `in2` before `in10`.

    Raises:
        ValueError: `content` is not a `.npz` file.
    """
    import zipfile  # most plans name no archive

    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
    except (zipfile.BadZipFile, EOFError, OverflowError, NotImplementedError) as error:
        raise ValueError(f"not a .npz file: {error}") from error
    return sorted(dict.fromkeys(names), key=_natural)


def chosen(names: list[str], pattern: str) -> list[str]:
    """Return the `names` that match `pattern`. If `pattern` is itself a name, return only that name."""
    return [pattern] if pattern in names else [name for name in names if fnmatchcase(name, pattern)]


def _natural(name: str) -> tuple[tuple[str, int], ...]:
    return tuple((text, int(digits or -1)) for text, digits in re.findall(r"(\D*)(\d*)", name))
