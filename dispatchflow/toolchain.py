"""One IREE compiler with its own runtime, and a content identity."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from dispatchflow import processes
from dispatchflow.errors import ToolchainError
from dispatchflow.keys import Digest, digest_file, key_of
from dispatchflow.locks import Machine
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
    dispatch_statistics: bool
    """Whether the benchmark tool accounts for each dispatch: from 3.13 on."""

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
    known = tuple(field.name for field in fields(Toolchain))
    stamps = {os.fspath(path): _stamp(path) for path in (*files, *tools)}
    stamp = key_of("toolchain", {"known": known, "files": stamps})
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
        dispatch_statistics="--dispatch_statistics" in _output(store, tools[1], "--help"),
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
    text = _output(store, compiler, "--version")
    if (match := re.search(r"version (\S+) @ (\S+)", text)) is None:
        raise ToolchainError("the compiler does not tell its version", {"program": compiler, "found": text[:400]})
    return match[1], match[2]


def _output(store: Store, program: Path, argument: str) -> str:
    with Machine().busy(), store.scratch() as scratch:
        command = processes.Command((os.fspath(program), argument), scratch, time_limit_s=60)
        try:
            failure = processes.run(command).failure
        except OSError as error:
            failure = str(error)
        if failure:
            facts = {"program": program, "found": failure, "stderr": processes.shortened(scratch / "stderr", 400)}
            raise ToolchainError(f"{program.name} does not run", facts)
        return (scratch / "stdout").read_text(errors="replace")


def _runtime_version(runtime: Path) -> str:
    version = runtime / "version.py"
    match = re.search(r'VERSION\s*=\s*"([^"]*)"', version.read_text()) if version.is_file() else None
    return match[1] if match else "unknown"
