"""Find the files that a program and its child programs load, except system files.

The program may be a script that starts another program. The environment variable `LD_DEBUG=files` makes glibc's loader
report all files that each process loads (ld.so(8))."""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterable
from pathlib import Path

TELL = {"LD_DEBUG": "files"}
"""The environment variable that makes glibc's loader report the files that a process loads."""

_LOADED = re.compile(
    rb"^ *\d+:\t(?:calling init|initialize program): (/.+?)\n(?= *\d+:\t|\Z)", re.MULTILINE | re.DOTALL
)
"""A pattern that finds the path of each loaded file in the reports of glibc's loader.

A path may contain any bytes, including newlines. A newline ends a path only before the loader's next line,
or at the end of the text."""

_SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64")
_OURS = re.compile(r"iree|mlir|llvm|lld|clang", re.IGNORECASE)


def output(folder: Path) -> dict[str, str]:
    """Return environment variables that make glibc's loader report the files that a process loads.

    The loader writes one report per process into `folder`. The function `files` reads the reports."""
    return TELL | {"LD_DEBUG_OUTPUT": str(folder / "loaded")}


def files(folder: Path) -> list[Path]:
    """Return the files that are named in the reports of glibc's loader, without system files.

    The reports are in `folder` (see `output`). Links are not resolved, so that the caller can notice when a link is
    changed."""
    texts = (path.read_bytes() for path in folder.glob("loaded.*"))
    found = {Path(os.fsdecode(name)) for text in texts for name in _LOADED.findall(text)}
    return sorted(path for path in found if path.is_file() and not _is_system(path.resolve()))


def is_program(path: Path) -> bool:
    """Return whether the file is an ELF file, not a script."""
    with path.open("rb") as stream:
        return stream.read(4) == b"\x7fELF"


def holds(path: Path, words: bytes) -> bool:
    with path.open("rb") as stream:
        if not os.fstat(stream.fileno()).st_size:
            return False
        with mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) as content:
            return content.find(words) >= 0


def resolved(paths: Iterable[Path]) -> list[Path]:
    """Return the existing files among `paths`, sorted, with links resolved."""
    return sorted({path.resolve() for path in paths if path.is_file()})


def _is_system(path: Path) -> bool:
    inside = any(path.is_relative_to(folder) for folder in _SYSTEM)
    return inside and not _OURS.search(path.name)
