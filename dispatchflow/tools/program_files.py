"""Find the files that a program runs: itself, its child programs, and the libraries of all of them.

Names and links do not show which files run. `tools/iree-compile` may be a link into another tree, a script that starts
a program elsewhere, or a small program whose code is in libraries on its RUNPATH. With `LD_DEBUG=files`, glibc's loader
reports all files that each process loads (ld.so(8))."""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterable
from pathlib import Path

TELL = {"LD_DEBUG": "files"}
"""The variable with which the loader reports the files that a process loads."""

_LOADED = re.compile(
    rb"^ *\d+:\t(?:calling init|initialize program): (/.+?)\n(?= *\d+:\t|\Z)", re.MULTILINE | re.DOTALL
)
"""The path of a loaded file. It ends before the loader's next line, because it may contain any bytes."""

_SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64")
_OURS = re.compile(r"iree|mlir|llvm|lld|clang", re.IGNORECASE)


def output(folder: Path) -> dict[str, str]:
    """Return environment variables that make glibc's loader report the files that a process loads.

    The loader writes a report for each process into `folder`; `files` reads the reports."""
    return TELL | {"LD_DEBUG_OUTPUT": str(folder / "loaded")}


def files(folder: Path) -> list[Path]:
    """Return the files in the reports in `folder`, without files of the system such as the C library.

    A link is returned as the link, so that the caller notices when it leads elsewhere."""
    texts = (path.read_bytes() for path in folder.glob("loaded.*"))
    found = {Path(os.fsdecode(name)) for text in texts for name in _LOADED.findall(text)}
    return sorted(path for path in found if path.is_file() and not _is_system(path.resolve()))


def is_program(path: Path) -> bool:
    """Return whether a file is an ELF file, not a script."""
    with path.open("rb") as stream:
        return stream.read(4) == b"\x7fELF"


def holds(path: Path, words: bytes) -> bool:
    """Return whether a file contains the bytes `words`."""
    with path.open("rb") as stream:
        if not os.fstat(stream.fileno()).st_size:
            return False
        with mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) as content:
            return content.find(words) >= 0


def resolved(paths: Iterable[Path]) -> list[Path]:
    """Return the existing files among `paths` with links resolved, each once, sorted."""
    return sorted({path.resolve() for path in paths if path.is_file()})


def _is_system(path: Path) -> bool:
    inside = any(path.is_relative_to(folder) for folder in _SYSTEM)
    return inside and not _OURS.search(path.name)
