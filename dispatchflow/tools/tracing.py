"""Capture Tracy traces of programs that use IREE's instrumented runtime, with `iree-tracy-capture`."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dispatchflow.errors import ToolError
from dispatchflow.tools import processes
from dispatchflow.tools.outcome import Outcome

_SCRIPT = Path(__file__).with_name("_tracer.py")
_FOLDER, _CAPTURE = "_runtime_libs_tracy", "iree-tracy-capture"
_GRACE_S = 5.0
FILE = "trace.tracy"
_LOG, _FACTS = "capture.log", "facts.json"
_LOCAL = {"TRACY_ONLY_LOCALHOST": "1", "TRACY_ONLY_IPV4": "1"}
"""Environment variables that make a program offer its trace only to processes of this machine."""
_WAITS = {"TRACY_NO_EXIT": "1"}
"""With this environment variable, a program does not exit before its trace has been captured."""

_NO_SAMPLES = {"TRACY_NO_SYS_TRACE": "1"}
"""The environment variable that turns off Tracy's samples of instructions.

If the environment of the traced program sets this variable, that value is used. With samples, 9 of 12 runs of a small
Python program with IREE 3.13 ended by SIGSEGV before the trace was complete. Without samples, none of 12 runs ended by
SIGSEGV."""


@dataclass(frozen=True, slots=True)
class TracyRuntime:
    """The tools of an IREE runtime that is instrumented for Tracy, in a folder beside the ordinary tools."""

    folder: Path

    def tool(self, name: str) -> str:
        return os.fspath(self.folder / name)


def runtime_beside(runtime: str | Path) -> TracyRuntime:
    """Return the instrumented runtime beside the ordinary tools of a release.

    `runtime` is the folder of the ordinary tools.

    Raises:
        ToolError: the release has no instrumented runtime."""
    folder = Path(runtime).parent / _FOLDER
    if not (folder / _CAPTURE).is_file():
        hint = "iree-base-runtime brings it on Linux only; a build tree has none."
        raise ToolError("this IREE has no Tracy runtime", {"looked for": folder / _CAPTURE}, hint)
    return TracyRuntime(folder)


@dataclass(frozen=True, slots=True)
class Program:
    """A program to trace. `stdout` and `stderr` are paths, as in `processes.Command`."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    stdout: str
    stderr: str
    cpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Traced:
    file: Path
    outcome: Outcome
    """The exit code is that of the program. Time and memory are those of the program and the capture tool."""

    @property
    def failure(self) -> str | None:
        return self.outcome.failure


def capture(runtime: TracyRuntime, program: Program, scratch: Path, limit_s: float, memory_bytes: int | None) -> Traced:
    """Run `program` to its end and write its trace into the folder `scratch`.

    All processes of the program are killed after `limit_s` seconds. `memory_bytes` limits the memory of each
    process. None means no limit.

    Raises:
        ToolError: the time limit was reached, no program connected to the capture tool, or the tool failed."""
    port = str(_free_port())
    log, facts, file = (scratch.absolute() / name for name in (_LOG, _FACTS, FILE))
    request = {
        "program": program.argv,
        "capture": (runtime.tool(_CAPTURE), "-f", "-o", os.fspath(file), "-a", "127.0.0.1", "-p", port),
        "variables": {"TRACY_PORT": port, **_WAITS, **_LOCAL},
        "log": os.fspath(log),
        "facts": os.fspath(facts),
        "grace_s": _GRACE_S,
    }
    command = processes.Command(
        (sys.executable, "-I", "-S", os.fspath(_SCRIPT), json.dumps(request)), program.cwd,
        {**_NO_SAMPLES, **program.env},
        stdout=program.stdout, stderr=program.stderr, time_limit_s=limit_s, memory_limit_bytes=memory_bytes,
        cpus=program.cpus,
    )  # fmt: skip
    outcome = processes.run(command)
    said = "".join(processes.shortened(log).splitlines()[-1:])
    if outcome.timed_out:
        late = {"found": outcome.failure, "capture": said}
        raise ToolError("the traced program was ended at the limit", late, "block_limit= sets it, in seconds.")
    if not facts.is_file():
        raise ToolError("the trace was not captured", {"found": outcome.failure or "no facts", "capture": said})
    known = json.loads(facts.read_text())
    ended = Outcome(known["program"] or 0, False, outcome.wall_s, outcome.cpu_s, outcome.peak_bytes)
    if not known["attached"] and known["capture"] is None:
        hint = "Only programs that load IREE's Tracy runtime can be traced: Python ones by `import iree.runtime`."
        found = {"program": ended.failure or "ended without an error", "waited": f"{_GRACE_S:g} s after its end"}
        raise ToolError("the program ended and was never traced", found, hint)
    if known["capture"] or not file.is_file():
        raise ToolError("iree-tracy-capture failed", {"found": said or "nothing said", "program": ended.failure})
    return Traced(file, ended)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
