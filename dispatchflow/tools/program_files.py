"""Which files a program runs: itself, what it starts, and the libraries of all of them, as the dynamic loader reports.

Names and links do not tell: `tools/iree-compile` may be a link into another tree, a script that starts a program
elsewhere, or a small program whose code is in libraries that its RUNPATH names. glibc's loader tells all of it
(`LD_DEBUG=files`, ld.so(8)), of each process that was started.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterable
from pathlib import Path

TELL = {"LD_DEBUG": "files"}
"""Environment of the process; with `LD_DEBUG_OUTPUT`, to whose value the loader adds a dot and the process's number."""

_LOADED = re.compile(
    rb"^ *\d+:\t(?:calling init|initialize program): (/.+?)\n(?= *\d+:\t|\Z)", re.MULTILINE | re.DOTALL
)
"""Up to the next line of the loader: a path may have any bytes."""

_SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64")
_OURS = re.compile(r"iree|mlir|llvm|lld|clang", re.IGNORECASE)


def output(folder: Path) -> dict[str, str]:
    """The environment with which a process and its children leave files in `folder` for `files`."""
    return TELL | {"LD_DEBUG_OUTPUT": str(folder / "loaded")}


def files(folder: Path) -> list[Path]:
    """The files that were loaded, as the loader names them (a link may name another file tomorrow), but for the
    system's own: a shell, the C library. An update of those is no other compiler."""
    texts = (path.read_bytes() for path in folder.glob("loaded.*"))
    found = {Path(os.fsdecode(name)) for text in texts for name in _LOADED.findall(text)}
    return sorted(path for path in found if path.is_file() and not _is_system(path.resolve()))


def is_program(path: Path) -> bool:
    """Whether it is a program itself, and no script that runs one."""
    with path.open("rb") as stream:
        return stream.read(4) == b"\x7fELF"


def holds(path: Path, words: bytes) -> bool:
    """Whether these bytes are in the file."""
    with path.open("rb") as stream:
        if not os.fstat(stream.fileno()).st_size:
            return False
        with mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) as content:
            return content.find(words) >= 0


def resolved(paths: Iterable[Path]) -> list[Path]:
    """Existing files, links resolved, each once."""
    return sorted({path.resolve() for path in paths if path.is_file()})


def _is_system(path: Path) -> bool:
    inside = any(path.is_relative_to(folder) for folder in _SYSTEM)
    return inside and not _OURS.search(path.name)
