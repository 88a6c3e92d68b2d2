"""Find libraries such as numpy in this Python environment, without importing them."""

from __future__ import annotations

import csv
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from dispatchflow.keys import Digest, key_of


@dataclass(frozen=True, slots=True)
class Installed:
    version: str
    digest: Digest
    """A digest that identifies the library's code (see the function `library`)."""
    folder: str = field(compare=False)
    """The directory in which Python finds the library."""


@cache
def library(name: str) -> Installed | None:
    """Return the installed Python package `name`, or None if there is no such package.

    The digest in the result covers the shared libraries of the package and of its requirements."""
    try:
        own = distribution(name)
    except PackageNotFoundError:
        return None
    # Shared libraries may have gigabytes. Therefore their content is not read.
    parts: dict[str, tuple[str, ...]] = {own.name: _shared_libraries(own)}
    for requirement in own.requires or ():
        if match := re.match(r"[\w.-]+", requirement):
            try:
                needed = distribution(match[0])
            except PackageNotFoundError:  # an optional requirement
                continue
            if libraries := _shared_libraries(needed):
                parts[needed.name] = (needed.version, *libraries)
    if not any(re.search("blas|mkl", line.lower()) for part in parts.values() for line in part):
        # No package brings a BLAS: the system's may be loaded, for which no installer recorded digests.
        parts["beside"] = _math_libraries()
    if not parts[own.name]:
        parts[own.name] = _stamps(Path(str(own.locate_file(own.name))).rglob("*.so"))
    return Installed(own.version, Digest(key_of("library", parts)), str(Path(str(own.locate_file("")))))


def _shared_libraries(package: Distribution) -> tuple[str, ...]:
    """Return a string `NAME DIGEST` for each of a package's shared libraries.

    Shared libraries for which the installer recorded no digest are left out."""
    lines = csv.reader((package.read_text("RECORD") or "").splitlines())
    return tuple(sorted(f"{line[0]} {line[1]}" for line in lines if re.search(r"\.so(\.|$)", line[0]) and line[1]))


_FOLDERS = (
    Path(sys.prefix, "lib"),
    *(
        Path(root, folder)
        for root in ("/usr/local", "/usr")
        for folder in (f"lib/{os.uname().machine}-linux-gnu", "lib64", "lib")
    ),
)
"""The directories that may contain a BLAS that was not installed with a Python package."""


def _math_libraries() -> tuple[str, ...]:
    names = ("lib*blas*.so*", "liblapack*.so*", "libmkl_*.so*", "libblis*.so*")
    return _stamps(path for folder in _FOLDERS for name in names for path in folder.glob(name))


def _stamps(paths: Iterable[Path]) -> tuple[str, ...]:
    found = ((path, path.stat()) for path in sorted(set(paths)) if path.is_file())
    return tuple(f"{path} {path.resolve()} {status.st_size} {status.st_mtime_ns}" for path, status in found)
