"""The description of an IREE compiler and its runtime, for cache keys and command lines."""

from __future__ import annotations

from dataclasses import dataclass

from dispatchflow.keys import Digest


@dataclass(frozen=True, slots=True)
class Toolchain:
    """The paths, versions and digests of the compiler and the runtime."""

    compiler: str
    """The path of iree-compile."""
    runtime: str
    """The directory that contains iree-run-module and iree-benchmark-module."""
    version: str
    """The version that the compiler prints, such as `3.13.0rc20261016`. `unknown` if it prints none."""
    revision: str | None
    digest: Digest
    """Digest of the files that decide the compiler's output: its programs, linker and libraries.

    The digest does not depend on where the compiler is installed."""
    runtime_version: str
    runtime_digest: Digest
    """Digest of the runtime's tools and of the libraries that they load."""
    dispatch_statistics: bool
    """True if iree-benchmark-module can report statistics of each dispatch. IREE 3.13 and later can."""
    size_bytes: int
    """Total size of the files that `digest` and `runtime_digest` cover."""

    def tool(self, name: str) -> str:
        """Return the path of a runtime tool, such as `iree-run-module`."""
        return f"{self.runtime}/{name}"
