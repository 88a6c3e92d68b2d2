"""One IREE compiler with its own runtime, and a content identity."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from dispatchflow import processes, releases
from dispatchflow.errors import ToolchainError, plain
from dispatchflow.keys import Digest, digest_file, key_of
from dispatchflow.limits import DEFAULT, Limits
from dispatchflow.locks import Machine
from dispatchflow.stamps import ABSENT, See, stamp
from dispatchflow.store import Store


@dataclass(frozen=True, slots=True)
class Toolchain:
    """`digest` is of the compiler's program, library, linker and platform libraries: what decides its output."""

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

    @property
    def size_bytes(self) -> int:
        """Of the files that say which one it is, each once: a build tree links libraries to each other."""
        files = (*_compiler_files(Path(self.compiler)), *_tools(Path(self.runtime)))
        return sum(path.stat().st_size for path in {path.resolve() for path in files})

    def tool(self, name: str) -> str:
        """Path of a runtime tool."""
        return os.path.join(self.runtime, name)

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """`variables`, where LD_LIBRARY_PATH begins with its own libraries: what is there precedes a program's RUNPATH,
        and another compiler library would work behind this one's digest. With its linker where its name needs quoting:
        the compiler (3.13, and all before) takes the one beside itself, and gives a shell its name as it is."""
        seen = dict(variables)
        if _LIBRARIES in seen:
            folder = os.path.dirname(self.compiler)
            seen[_LIBRARIES] = os.pathsep.join((folder, f"{folder}/../lib", seen[_LIBRARIES]))
        linker = os.path.join(os.path.dirname(os.path.realpath(self.compiler)), _LINKER)
        if (quoted := processes.quoted([linker])) != linker and os.path.isfile(linker):
            seen["IREE_LLVM_EMBEDDED_LINKER_PATH"] = quoted
        return seen

    @property
    def printer(self) -> str:
        """Path of iree-opt, which reads what the compiler reads.

        Raises:
            OSError: it is not there: no file of the toolchain's identity, a build tree may lack it.
        """
        folder = os.path.dirname(self.compiler)
        if not os.path.isfile(path := os.path.join(folder, "iree-opt")):
            raise FileNotFoundError(f"this toolchain has no iree-opt, which prints modules: looked in {folder}")
        return path


_LIBRARIES = "LD_LIBRARY_PATH"
_LINKER = "iree-lld"
COMPILER = "iree/compiler/_mlir_libs/iree-compile"
RUNTIME = "iree/_runtime_libs/iree-run-module"


def find(store: Store, word: str, say: Callable[[str], None], see: See = stamp, limits: Limits = DEFAULT) -> Toolchain:
    """`current`: this Python environment; `3.12.0`: a release; else a path: an IREE build tree, or an environment,
    of several Pythons in it the newest that has IREE. `see` looks at each file that decides which one it is.

    Raises:
        ToolchainError: there is no compiler, or no runtime with it, or one does not run.
    """
    if word == "current":
        places = [Path(entry) for entry in sys.path if entry]
        hint = f"Run {os.path.basename(sys.executable)} -m pip install iree-base-compiler iree-base-runtime."
    elif releases.is_version(word):
        places = [releases.fetched(store, word, say)]
        hint = f"doit toolchains remove={word} removes what is left of it; then it is fetched anew."
    else:
        root = Path(word).absolute()
        see(os.fspath(root / "lib"))  # which may gain a Python
        pythons = sorted(root.glob("lib/python*"), key=_version_in, reverse=True)
        places = [root, *(python / "site-packages" for python in pythons)]
        hint = (
            "Name one toolchain at a time: current, a release (3.12 or 3.12.0, no zero before a number), "
            "a build tree with tools/, or a Python environment."
        )
    # A build tree has its tools side by side.
    compiler = _first(places, (COMPILER, "tools/iree-compile"), see)
    runtime = _first(places, (RUNTIME, "tools/iree-run-module"), see)
    if compiler is None or runtime is None:
        lacking = "compiler" if compiler is None else "runtime"
        raise ToolchainError(f"iree={word} has no {lacking}", {"looked in": ", ".join(map(str, places))}, hint)
    try:
        return described(store, compiler, runtime.parent, see, limits)
    except ToolchainError as error:
        if not releases.is_version(word):
            raise
        raise ToolchainError(error.problem, error.facts, f"If it is damaged: {hint}") from error


def _version_in(path: Path) -> list[int]:
    """`python3.12` → [3, 12]."""
    return [int(number) for number in re.findall(r"\d+", path.name)]


def _first(places: Sequence[Path], names: Sequence[str], see: See) -> Path | None:
    paths = (place / name for place in places for name in names)
    return next((path for path in paths if see(os.fspath(path)) != ABSENT), None)


def described(store: Store, compiler: Path, runtime: Path, see: See = stamp, limits: Limits = DEFAULT) -> Toolchain:
    """With its identity, remembered until one of its files changes.

    Raises:
        ToolchainError: one of the programs does not run.
    """
    files = _compiler_files(compiler)
    tools = _tools(runtime)
    known = tuple(field.name for field in fields(Toolchain))
    for folder in {path.parent for path in files}:
        see(os.fspath(folder))  # which may gain a library
    stamps = {os.fspath(path): see(os.fspath(path)) for path in (*files, *tools)}
    identity = key_of("toolchain", {"known": known, "files": stamps})
    if remembered := store.records.remembered(f"toolchain:{identity}"):
        return Toolchain(**json.loads(remembered))
    version, revision = _version(compiler, limits)
    toolchain = Toolchain(
        compiler=os.fspath(compiler),
        runtime=os.fspath(runtime),
        version=version,
        revision=revision,
        digest=Digest(key_of("compiler", {_place(compiler, path): digest_file(path) for path in files})),
        runtime_version=_runtime_version(runtime),
        runtime_digest=_runtime_digest(runtime),
        dispatch_statistics="--dispatch_statistics" in _output(tools[1], "--help", "run_limit", limits),
    )
    store.records.remember(f"toolchain:{identity}", json.dumps(asdict(toolchain)))
    return toolchain


def runtime_of(store: Store, digest: str) -> str | None:
    """The directory of a runtime that has this digest still, of all toolchains used with this store; or None."""
    for text in store.records.remembered_of("toolchain"):
        known = json.loads(text)
        with contextlib.suppress(OSError):  # removed since
            if known["runtime_digest"] == digest == _runtime_digest(Path(known["runtime"])):
                return str(known["runtime"])
    return None


def _tools(runtime: Path) -> list[Path]:
    return [runtime / "iree-run-module", runtime / "iree-benchmark-module"]


def _runtime_digest(runtime: Path) -> Digest:
    return Digest(key_of("runtime", {path.name: digest_file(path) for path in _tools(runtime)}))


def _place(compiler: Path, path: Path) -> str:
    """Relative to the compiler: where a toolchain lies is no part of what it is."""
    return os.path.relpath(path, compiler.parent)


def _compiler_files(compiler: Path) -> list[Path]:
    folder, build = compiler.parent, compiler.parent.parent / "lib"
    platform = (folder / "iree_platform_libs").rglob("*")
    libraries = [*folder.glob("libIREECompiler*"), *build.glob("libIREECompiler*")]
    files = [compiler, *sorted(libraries), folder / _LINKER, *sorted(platform)]
    return [path for path in files if path.is_file()]


def _version(compiler: Path, limits: Limits) -> tuple[str, str | None]:
    """A release says `version 3.13.0rc20261016 @ 89ece87b…`, a build tree `version 3.14.0.dev`, or `(unknown)`."""
    text = _output(compiler, "--version", "compile_limit", limits)
    if (match := re.search(r"^ *IREE compiler version \(?([^\s)]+)\)?(?: @ (\S+))?$", text, re.MULTILINE)) is None:
        facts = {"program": compiler, "found": text[:400].strip() or "nothing"}
        raise ToolchainError("the compiler does not tell its version", facts, "Is it IREE's? That one always does.")
    return match[1], match[2]


def _output(program: Path, argument: str, time_limit: str, limits: Limits) -> str:
    command = processes.Command(
        (os.fspath(program), argument), Path("/"),
        time_limit_s=limits.value(time_limit), memory_limit_bytes=limits.memory_bytes,
    )  # fmt: skip
    try:
        with Machine().busy():
            outcome, text, errors = processes.answer(command)
        failure = limits.failure(time_limit, outcome, errors)
    except OSError as error:
        failure, errors = str(error), ""
    if failure:
        facts = {"program": program, "found": failure, "stderr": errors}
        raise ToolchainError(f"{program.name} does not run", facts)
    return text


def _runtime_version(runtime: Path) -> str:
    version = runtime / "version.py"
    match = re.search(r'VERSION\s*=\s*"([^"]*)"', version.read_text(errors="replace")) if version.is_file() else None
    return plain(match[1]) if match else "unknown"
