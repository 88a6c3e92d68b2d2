"""Which libraries of other providers this Python environment has, without importing them."""

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
    """A library as it is installed: its version, the digest of what decides its code, and where Python finds it."""

    version: str
    digest: Digest
    folder: str = field(compare=False)


@cache
def library(name: str) -> Installed | None:
    """None where it is not installed.

    The digest is of the shared libraries of the package and of those that it requires (BLAS, cuDNN), as their
    installer recorded them: to read gigabytes at each start would be slow. Where no BLAS is recorded, as in packages of
    conda and of Debian, it is of the sizes and times of those that are beside Python and in the system, one of which is
    loaded; where nothing is recorded, also of the package's own.
    """
    try:
        own = distribution(name)
    except PackageNotFoundError:
        return None
    parts: dict[str, tuple[str, ...]] = {own.name: _shared_libraries(own)}
    for requirement in own.requires or ():
        if match := re.match(r"[\w.-]+", requirement):
            try:
                needed = distribution(match[0])
            except PackageNotFoundError:  # optional
                continue
            if libraries := _shared_libraries(needed):
                parts[needed.name] = (needed.version, *libraries)
    if not any(re.search("blas|mkl", line.lower()) for part in parts.values() for line in part):
        parts["beside"] = _math_libraries()
    if not parts[own.name]:
        parts[own.name] = _stamps(Path(str(own.locate_file(own.name))).rglob("*.so"))
    return Installed(own.version, Digest(key_of("library", parts)), str(Path(str(own.locate_file("")))))


def _shared_libraries(package: Distribution) -> tuple[str, ...]:
    """Name and digest of each shared library, as recorded."""
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
"""Where a library lies that no Python package brings."""


def _math_libraries() -> tuple[str, ...]:
    names = ("lib*blas*.so*", "liblapack*.so*", "libmkl_*.so*", "libblis*.so*")
    return _stamps(path for folder in _FOLDERS for name in names for path in folder.glob(name))


def _stamps(paths: Iterable[Path]) -> tuple[str, ...]:
    """Name, size and time of each file; of a link those of the file that it leads to, as of Debian's alternatives."""
    found = ((path, path.stat()) for path in sorted(set(paths)) if path.is_file())
    return tuple(f"{path} {path.resolve()} {status.st_size} {status.st_mtime_ns}" for path, status in found)
