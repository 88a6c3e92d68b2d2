"""Run, kill and find processes of `doit` and of IREE's tools, and replace a tool by a script."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

QUESTIONS = "*--version*|*--help*|*--compile-to=executable-targets*"
"""A shell pattern for arguments that ask a tool for its version, its help, or the features of a CPU."""

LIMIT_S = 300
"""The time limit of one command in seconds; only a command that hangs takes this long."""


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    def __str__(self) -> str:
        return f"exit code {self.code}\n{self.out}\n{self.err}"


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of this process, without DISPATCHFLOW_STORE and with `variables` added.

    DISPATCHFLOW_STORE names a store. It is left out so that each test uses the store of its own project."""
    kept = {name: value for name, value in os.environ.items() if name != "DISPATCHFLOW_STORE"}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1", **variables}


def finished(process: subprocess.Popen[str]) -> Outcome:
    try:
        out, err = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    outcome = Outcome(process.returncode, out, err)
    assert "Traceback" not in out + err, str(outcome)
    return outcome


def kill(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=LIMIT_S)


def processes_in(folder: Path) -> list[str]:
    """Return the command lines of other processes that run in `folder` or name it in their arguments.

    Processes that have already ended (zombies) are left out."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            place = os.fspath((entry / "cwd").readlink())
            if state != "Z" and (place.startswith(os.fspath(folder)) or os.fspath(folder) in words):
                found.append(words)
    return found


def wait_until(condition: Any, limit_s: float = 60.0) -> bool:
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def compiler_folder() -> Path:
    return _package("iree.compiler") / "_mlir_libs"


def runtime_folder() -> Path:
    return _package("iree._runtime_libs")


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(next(iter(spec.submodule_search_locations)))


def toolchain(folder: Path, **scripts: str) -> str:
    """Make a toolchain in `folder`: links to the installed tools, and shell scripts instead of some tools.

    Returns the PYTHONPATH that selects this toolchain. For example, `iree_run_module="…"` replaces the
    tool `iree-run-module` by the given script. In a script, `$real` is the path of the real tool."""
    for real, within in ((compiler_folder(), "iree/compiler/_mlir_libs"), (runtime_folder(), "iree/_runtime_libs")):
        linked = folder / within
        linked.mkdir(parents=True)
        for path in real.iterdir():
            script = scripts.pop(path.name.replace("-", "_"), None)
            if script is None:
                (linked / path.name).symlink_to(path)
            else:
                write_script(linked / path.name, f"real={path}\n{script}")
    assert not scripts, f"no such tool: {', '.join(scripts)}"
    return os.pathsep.join([os.fspath(folder), *filter(None, [os.environ.get("PYTHONPATH")])])


def write_script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def rightless() -> list[str]:
    """Return a command prefix that makes file permissions apply even if the user is root.

    For other users, the prefix is empty. If root has no program `setpriv`, the test is skipped."""
    if os.geteuid():
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("without setpriv root may write everything")
    rights = "-dac_override,-dac_read_search"
    return ["setpriv", "--bounding-set", rights, "--inh-caps", rights]
