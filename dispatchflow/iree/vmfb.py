"""What a vmfb holds: a zip of the host program, executables and constants."""

from __future__ import annotations

import io
import zipfile
import zlib
from dataclasses import dataclass

from dispatchflow.keys import Digest, canonical, digest_of

_HOST_PROGRAM = "module.fb"


@dataclass(frozen=True, slots=True)
class Vmfb:
    """`code_bytes` is the size of the executables; `problem` says why it cannot be run."""

    code_digest: Digest | None
    code_bytes: int
    problem: str | None


def inspect(content: bytes) -> Vmfb:
    """The code digest: of the entries' (name, bytes), sorted. Nothing is scrubbed: a false difference costs a
    measurement, a false equality is a wrong answer."""
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
    # A linker that was replaced (IREE_LLVM_EMBEDDED_LINKER_PATH=/bin/true) leaves exit code 0 and this.
    if empty := [name for name, data in executables.items() if not data]:
        return Vmfb(code_digest, code_bytes, f"executable {empty[0]} is empty")
    if _HOST_PROGRAM not in entries:
        return Vmfb(code_digest, code_bytes, "the vmfb has no host program")
    return Vmfb(code_digest, code_bytes, None)
