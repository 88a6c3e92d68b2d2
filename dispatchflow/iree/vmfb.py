"""Inspect a vmfb, which is a zip archive of the host program, executables and constants."""

from __future__ import annotations

import io
import zipfile
import zlib
from dataclasses import dataclass

from dispatchflow.keys import Digest, canonical, digest_of

_HOST_PROGRAM = "module.fb"


@dataclass(frozen=True, slots=True)
class Vmfb:
    """Facts about the content of a vmfb."""

    code_digest: Digest | None
    """Digest of the names and bytes of all files in the archive; None if the archive cannot be opened."""
    code_bytes: int
    """Total size of the executables in bytes."""
    problem: str | None
    """The reason why the compiled module cannot be run. None if no problem was found."""


def inspect(content: bytes) -> Vmfb:
    """Compute a digest of all files in a vmfb, and check that the vmfb is complete enough to be run."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = {name: archive.read(name) for name in sorted(archive.namelist())}
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError, zlib.error) as error:
        return Vmfb(None, 0, f"the vmfb cannot be opened: {error}")
    executables = {
        name: data for name, data in entries.items() if name != _HOST_PROGRAM and not name.startswith("_const")
    }
    code_digest = digest_of(canonical(entries))
    code_bytes = sum(map(len, executables.values()))
    # A replaced linker (IREE_LLVM_EMBEDDED_LINKER_PATH=/bin/true) leaves an empty executable, with exit code 0.
    if empty := [name for name, data in executables.items() if not data]:
        return Vmfb(code_digest, code_bytes, f"executable {empty[0]} is empty")
    if _HOST_PROGRAM not in entries:
        return Vmfb(code_digest, code_bytes, "the vmfb has no host program")
    return Vmfb(code_digest, code_bytes, None)
