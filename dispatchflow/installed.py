"""Which libraries of other providers this Python environment has, without importing them."""

from __future__ import annotations

import csv
import re
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
    installer recorded them: to read gigabytes at each start would be slow. Where nothing is recorded, as in a
    distribution's own packages, it is the versions alone.
    """
    try:
        own = distribution(name)
    except PackageNotFoundError:
        return None
    parts = {own.name: _code(own)}
    for requirement in own.requires or ():
        if match := re.match(r"[\w.-]+", requirement):
            try:
                needed = distribution(match[0])
            except PackageNotFoundError:  # optional
                continue
            if libraries := _code(needed):
                parts[needed.name] = (needed.version, *libraries)
    return Installed(own.version, Digest(key_of("library", parts)), str(Path(str(own.locate_file("")))))


def _code(package: Distribution) -> tuple[str, ...]:
    """Name and digest of each shared library, as recorded."""
    lines = csv.reader((package.read_text("RECORD") or "").splitlines())
    return tuple(sorted(f"{line[0]} {line[1]}" for line in lines if re.search(r"\.so(\.|$)", line[0]) and line[1]))
