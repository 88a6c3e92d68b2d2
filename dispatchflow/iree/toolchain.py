"""A toolchain as keys, rows and command lines know it."""

from __future__ import annotations

from dataclasses import dataclass

from dispatchflow.keys import Digest


@dataclass(frozen=True, slots=True)
class Toolchain:
    """`digest` is of the compiler's programs, libraries, linker and platform libraries: what decides its output,
    however it is reached. `runtime_digest` is of the runtime's tools and what they load."""

    compiler: str
    runtime: str
    """The directory of iree-run-module and iree-benchmark-module."""
    version: str
    """What its compiler says, `3.13.0rc20261016`; `unknown` of a build tree that was not told."""
    revision: str | None
    digest: Digest
    runtime_version: str
    runtime_digest: Digest
    dispatch_statistics: bool
    """Whether the benchmark tool accounts for each dispatch: from 3.13 on."""
    size_bytes: int
    """Of the files in both digests."""

    def tool(self, name: str) -> str:
        """Path of a runtime tool."""
        return f"{self.runtime}/{name}"
