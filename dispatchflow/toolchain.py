"""One IREE compiler with its own runtime, and a content identity."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from dispatchflow import processes
from dispatchflow.errors import ToolchainError
from dispatchflow.keys import Digest, digest_file, key_of
from dispatchflow.store import Store


@dataclass(frozen=True, slots=True)
class Toolchain:
    """`digest` is of the compiler's program, library, linker and platform libraries: what decides its output."""

    compiler: str
    runtime: str
    """The directory of iree-run-module and iree-benchmark-module."""
    version: str
    revision: str
    digest: Digest
    runtime_version: str
    runtime_digest: Digest

    def tool(self, name: str) -> str:
        """Path of a runtime tool."""
        return os.path.join(self.runtime, name)


def current(store: Store) -> Toolchain:
    """The compiler and runtime of this Python environment, remembered until one of their files changes.

    Raises:
        ToolchainError: one of the two is not installed, or does not run.
    """
    compiler = _installed("iree/compiler/_mlir_libs/iree-compile", "iree-base-compiler")
    runtime = _installed("iree/_runtime_libs/iree-run-module", "iree-base-runtime").parent
    files = _compiler_files(compiler)
    tools = [runtime / "iree-run-module", runtime / "iree-benchmark-module"]
    stamp = key_of("toolchain", {os.fspath(path): _stamp(path) for path in (*files, *tools)})
    if remembered := store.records.remembered(f"toolchain:{stamp}"):
        return Toolchain(**json.loads(remembered))
    version, revision = _version(store, compiler)
    toolchain = Toolchain(
        compiler=os.fspath(compiler),
        runtime=os.fspath(runtime),
        version=version,
        revision=revision,
        digest=Digest(key_of("compiler", {os.fspath(p.relative_to(compiler.parent)): digest_file(p) for p in files})),
        runtime_version=_runtime_version(runtime),
        runtime_digest=Digest(key_of("runtime", {path.name: digest_file(path) for path in tools})),
    )
    store.records.remember(f"toolchain:{stamp}", json.dumps(asdict(toolchain)))
    return toolchain


def _installed(path: str, package: str) -> Path:
    for entry in sys.path:
        if (found := Path(entry) / path).is_file():
            return found
    raise ToolchainError(
        f"{package} is not installed",
        {"python": sys.executable, "looked for": path},
        f"Run {os.path.basename(sys.executable)} -m pip install {package}.",
    )


def _compiler_files(compiler: Path) -> list[Path]:
    folder = compiler.parent
    platform = (folder / "iree_platform_libs").rglob("*")
    files = [compiler, *sorted(folder.glob("libIREECompiler*")), folder / "iree-lld", *sorted(platform)]
    return [path for path in files if path.is_file()]


def _stamp(path: Path) -> tuple[int, ...]:
    status = path.stat()
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _version(store: Store, compiler: Path) -> tuple[str, str]:
    with store.scratch() as scratch:
        outcome = processes.run(processes.Command((os.fspath(compiler), "--version"), scratch, time_limit_s=60))
        text = (scratch / "stdout").read_text(errors="replace")
        errors = processes.shortened(scratch / "stderr", 400)
    match = re.search(r"version (\S+) @ (\S+)", text)
    if outcome.failure or match is None:
        raise ToolchainError(
            "the compiler does not run", {"program": compiler, "found": outcome.failure or text, "stderr": errors}
        )
    return match[1], match[2]


def _runtime_version(runtime: Path) -> str:
    version = runtime / "version.py"
    match = re.search(r'VERSION\s*=\s*"([^"]*)"', version.read_text()) if version.is_file() else None
    return match[1] if match else "unknown"
