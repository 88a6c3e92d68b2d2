"""Find an IREE compiler and its runtime, and compute digests of their files."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from itertools import chain
from pathlib import Path

from dispatchflow.errors import ToolchainError, plain
from dispatchflow.iree.toolchain import Toolchain
from dispatchflow.keys import Digest, Ingredient, digest_file, key_of
from dispatchflow.store import disk
from dispatchflow.store.stamps import ABSENT, See, stamp
from dispatchflow.store.store import Store
from dispatchflow.tools import processes, program_files, releases
from dispatchflow.tools.limits import DEFAULT, Limits

_LIBRARIES = "LD_LIBRARY_PATH"
_LINKER = "iree-lld"
COMPILER = "iree/compiler/_mlir_libs/iree-compile"
RUNTIME = "iree/_runtime_libs/iree-run-module"
_INSTALL = f"Run {os.path.basename(sys.executable)} -m pip install iree-base-compiler iree-base-runtime."


def environment_of(toolchain: Toolchain, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables `variables` with the changes that the toolchain's tools need.

    - If LD_LIBRARY_PATH is set, the toolchain's own directories are put first. The tools then load the libraries
      whose content is part of the toolchain's digest (hash).
    - If the linker's path needs shell quotes, IREE_LLVM_EMBEDDED_LINKER_PATH is set to the quoted path. Up to release
      3.13, the compiler does not quote the linker's path in the shell command that starts the linker."""
    seen = dict(variables)
    if _LIBRARIES in seen:
        folders = dict.fromkeys(map(os.path.dirname, (toolchain.compiler, os.path.realpath(toolchain.compiler))))
        own = [path for folder in folders for path in (folder, f"{folder}/../lib")]
        seen[_LIBRARIES] = os.pathsep.join((*own, seen[_LIBRARIES]))
    linker = os.path.join(os.path.dirname(os.path.realpath(toolchain.compiler)), _LINKER)
    if (quoted := processes.quoted([linker])) != linker and os.path.isfile(linker):
        seen["IREE_LLVM_EMBEDDED_LINKER_PATH"] = quoted
    return seen


def printer_of(toolchain: Toolchain) -> str:
    """Return the path of the toolchain's iree-opt, which parses the same MLIR as the compiler.

    Raises:
        OSError: iree-opt is missing, as in some build trees.
    """
    folder = os.path.dirname(toolchain.compiler)
    if not os.path.isfile(path := os.path.join(folder, "iree-opt")):
        raise FileNotFoundError(f"this toolchain has no iree-opt, which prints modules: looked in {folder}")
    return path


def find(store: Store, word: str, say: Callable[[str], None], see: See = stamp, limits: Limits = DEFAULT) -> Toolchain:
    """Find the toolchain that `word` selects. `word` is the value of `iree=` on a command line.

    Args:
        word: `current` for this Python environment, a release such as `3.12.0`, or the path of an IREE build tree or
            of a Python environment.
        say: a function that is called with each line about a download, and with a warning if files of a fetched
            release were changed later.
        see: a function that is called with the path of each file or directory on which the result depends
            (`stamps.See`).

    Raises:
        ToolchainError: the compiler or the runtime is missing or does not run."""
    if word == "current":
        places = [Path(entry) for entry in sys.path if entry]
        hint = _INSTALL
    elif releases.is_version(word):
        places = [releases.fetch(store, word, say)]
        hint = f"doit toolchains remove={word} removes it; the next run fetches it again."
    else:
        root = Path(word).absolute()
        see(os.fspath(root / "lib"))  # another Python may be added
        pythons = sorted(root.glob("lib/python*"), key=_version_in, reverse=True)
        places = [root, *(python / "site-packages" for python in pythons)]
        hint = (
            "Name one toolchain at a time: current, a release (3.12 or 3.12.0, no zero before a number), "
            "a build tree with tools/, or a Python environment."
        )
    # A build tree has all tools in one directory.
    compiler = _first_present(places, (COMPILER, "tools/iree-compile"), see)
    runtime = _first_present(places, (RUNTIME, "tools/iree-run-module"), see)
    if compiler is None or runtime is None:
        lacking = "compiler" if compiler is None else "runtime"
        raise ToolchainError(f"iree={word} has no {lacking}", {"looked in": ", ".join(map(str, places))}, hint)
    try:
        found = described(store, compiler, runtime.parent, see, limits)
    except ToolchainError as error:
        if not releases.is_version(word):
            raise
        raise ToolchainError(error.problem, error.facts, f"If it is damaged: {hint}") from error
    if releases.is_version(word) and (edits := _edited_files(store, places[0].name, found)):
        say(releases.warning(places[0].name, edits))
    return found


def installed() -> tuple[Path, Path]:
    """Return (path of the compiler, directory of the runtime's tools) for this Python environment.

    Raises:
        ToolchainError: the compiler or the runtime is missing."""
    places = [Path(entry) for entry in sys.path if entry]
    found = [next((path for place in places if (path := place / name).is_file()), None) for name in (COMPILER, RUNTIME)]
    compiler, runtime = found
    if compiler is None or runtime is None:
        lacking = "compiler" if compiler is None else "runtime"
        raise ToolchainError(f"this Python has no IREE {lacking}", {"looked in": ", ".join(map(str, places))}, _INSTALL)
    return compiler, runtime.parent


def _edited_files(store: Store, version: str, found: Toolchain) -> list[str]:
    name, identity = f"release:{version}", [found.digest, found.runtime_digest]
    if (text := store.records.remembered(name)) and (known := store.records.value(text))["identity"] == identity:
        return [str(edit) for edit in known["edits"]]
    edits = releases.edited(store, version)
    store.records.remember(name, json.dumps({"identity": identity, "edits": edits}))
    return edits


def _version_in(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", path.name)]


def _first_present(places: Sequence[Path], names: Sequence[str], see: See) -> Path | None:
    paths = (place / name for place in places for name in names)
    return next((path for path in paths if see(os.fspath(path)) != ABSENT), None)


def described(store: Store, compiler: Path, runtime: Path, see: See = stamp, limits: Limits = DEFAULT) -> Toolchain:
    """Return a `Toolchain` that describes the program `compiler` and the tools in the folder `runtime`.

    The store keeps the result until a file of the toolchain changes.

    Raises:
        ToolchainError: a program does not run, or the files that the compiler loads cannot be determined."""
    known = tuple(field.name for field in fields(Toolchain))
    place: dict[str, Ingredient] = {
        "known": known,
        "compiler": os.fspath(compiler),
        "runtime": os.fspath(runtime),
        "version": _IDENTITY,
    }
    name = f"toolchain:{key_of('toolchain', place)}"
    if text := store.records.remembered(name):
        remembered = store.records.value(text)
        now = {path: see(path) for path in remembered.pop("stamps")}
        if now == store.records.value(text)["stamps"]:
            return Toolchain(**{field: remembered[field] for field in known})
    stamps: dict[str, str] = {}
    with store.scratch() as scratch:
        version, revision = _version(store, compiler, limits, scratch)
        ran = program_files.files(scratch)
        try:
            _require_code(compiler, ran)
        except ToolchainError:
            disk.check(store.root)  # on a full disk the loader's reports are missing
            raise
        compilers = _compilers(compiler, ran)
        for program in compilers:
            if (linker := program.parent / _LINKER).is_file():  # the compiler starts it, unless its own is built in
                with contextlib.suppress(ToolchainError):
                    _output(store, linker, "-flavor gnu --version", "compile_limit", limits, scratch)
        compiling = [compiler, *program_files.files(scratch), *chain.from_iterable(map(_files_beside, compilers))]
    with store.scratch() as scratch:
        _, shown = (_output(store, tool, "--help", "run_limit", limits, scratch) for tool in _tools(runtime))
        running = [*_tools(runtime), *program_files.files(scratch)]
    files, tools = program_files.resolved(compiling), program_files.resolved(running)
    for path in dict.fromkeys((*compiling, *running, *files, *tools)):
        for seen in (path.parent, path):  # a library may be added to the directory, or a link replaced
            stamps[os.fspath(seen)] = see(os.fspath(seen))
    toolchain = Toolchain(
        compiler=os.fspath(compiler),
        runtime=os.fspath(runtime),
        version=version,
        revision=revision,
        digest=_digest("compiler", files),
        runtime_version=_runtime_version(runtime),
        runtime_digest=_digest("runtime", tools),
        dispatch_statistics="--dispatch_statistics" in shown,
        size_bytes=sum(path.stat().st_size for path in (*files, *tools)),
    )
    kept = {**asdict(toolchain), "stamps": stamps, "tools": [os.fspath(path) for path in tools]}
    store.records.remember(name, json.dumps(kept))
    return toolchain


_IDENTITY = 3
"""The version of the rule by which `described` selects the files for a toolchain's digests."""


def runtime_of(store: Store, digest: str) -> str | None:
    """Return the directory of an IREE runtime whose tools and libraries have the digest `digest`.

    Only runtimes that are recorded in the store are tried. Their digests are computed again from their files. Returns
    None if no runtime has this digest."""
    for text in store.records.remembered_of("toolchain"):
        known = store.records.value(text)
        with contextlib.suppress(OSError):  # it was removed
            if known["runtime_digest"] == digest == _digest("runtime", map(Path, known.get("tools", ()))):
                return str(known["runtime"])
    return None


def _tools(runtime: Path) -> list[Path]:
    return [runtime / "iree-run-module", runtime / "iree-benchmark-module"]


def _digest(kind: str, files: Iterable[Path]) -> Digest:
    return Digest(key_of(kind, {"files": tuple(sorted({(path.name, digest_file(path)) for path in files}))}))


def _compilers(compiler: Path, ran: Sequence[Path]) -> list[Path]:
    """Return the compiler's programs and libraries, at most one from each directory.

    The result is selected from `compiler` and `ran`. `ran` lists the files that were loaded when the compiler ran."""
    # `compiler` may be a script that starts the real program: its files are known by their text or name.
    loaded = (path.resolve() for path in ran if program_files.holds(path, _SAID) or path.name == compiler.name)
    return list({path.parent: path for path in (compiler.resolve(), *loaded)}.values())


def _files_beside(compiler: Path) -> list[Path]:
    """Return the files near `compiler` that it may use: its library, the linker and platform libraries.

    The result has the linker's path even if there is no such file."""
    folder, build = compiler.parent, compiler.parent.parent / "lib"
    platform = (folder / "iree_platform_libs").rglob("*")
    return [*folder.glob("libIREECompiler*"), *build.glob("libIREECompiler*"), folder / _LINKER, *platform]


def _require_code(compiler: Path, ran: Sequence[Path]) -> None:
    """Check that the code of an IREE compiler is in the file `compiler`, or in a file of the list `ran`.

    `ran` has the files that were loaded when `compiler` printed its version. `compiler` may be a script.

    Raises:
        ToolchainError: none of the files contains the code."""
    files = (compiler, *ran)
    if not any(map(program_files.is_program, files)):
        found = "a script that starts no compiler for --version"
    elif not any(program_files.holds(path, _SAID) for path in files):
        found = f"'{_SAID.decode()}' is in none of {', '.join(map(str, files))}"
    else:
        return
    hint = 'Name the tree that the compiler itself is in, or let the script start it (exec …/iree-compile "$@").'
    raise ToolchainError("this compiler cannot be identified", {"program": compiler, "found": found}, hint)


_SAID = b"IREE compiler version"
"""A text that the compiler prints for `--version`. The file with the compiler's code contains it."""


def _version(store: Store, compiler: Path, limits: Limits, scratch: Path) -> tuple[str, str | None]:
    """Return (version, revision), as `compiler` prints them. The revision is None if it is not printed."""
    text = _output(store, compiler, "--version", "compile_limit", limits, scratch)
    # A release prints `3.13.0rc20261016 @ 89ece87b…`, a build tree `3.14.0.dev` or `(unknown)`.
    if (match := re.search(r"^ *IREE compiler version \(?([^\s)]+)\)?(?: @ (\S+))?$", text, re.MULTILINE)) is None:
        facts = {"program": compiler, "found": text[:400].strip() or "nothing"}
        raise ToolchainError("the compiler does not report its version", facts, "IREE's does: check the program.")
    return match[1], match[2]


def _output(store: Store, program: Path, arguments: str, time_limit: str, limits: Limits, scratch: Path) -> str:
    """Run `program` with `arguments`, and return what it prints to stdout.

    glibc's loader writes reports to the folder `scratch`. The reports name the files that the program loads.
    `time_limit` is the name of the program's time limit, such as `run_limit`."""
    command = processes.Command(
        (os.fspath(program), *arguments.split()), Path("/"), program_files.output(scratch),
        time_limit_s=limits.value(time_limit), memory_limit_bytes=limits.memory_bytes,
    )  # fmt: skip
    try:
        with store.busy():
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
