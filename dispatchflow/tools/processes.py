"""Run tools without a shell and with limits on time and memory. Their output goes to files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from dispatchflow.errors import plain
from dispatchflow.tools.outcome import Outcome

_LAUNCHER = Path(__file__).with_name("_launcher.py")
_SHOWN_BYTES = 4000
_ANSWER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Command:
    """A command to run. `stdin`, `stdout` and `stderr` are paths, absolute or relative to `cwd`."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: str | None = None
    stdout: str = "stdout"
    stderr: str = "stderr"
    time_limit_s: float = 600.0
    memory_limit_bytes: int | None = None
    output_limit_bytes: int = 32 << 20
    """The largest size of stdout, in bytes. The same limit applies to stderr.

    The middle of longer output is left out."""
    cpus: tuple[int, ...] = ()
    """The CPUs that the process may use. An empty tuple means all CPUs."""
    count_waits: bool = False
    """If true, measure how long the process waits for a CPU. The result is `Outcome.waited_s`.

    A thread that ends before the process prints anything may not be counted."""


class _Local(threading.local):
    launcher: subprocess.Popen[str] | None = None


_local = _Local()


def run(command: Command) -> Outcome:
    """Run `command` until it ends. At its time limit, the command is killed.

    A launcher process (`_launcher.py`) starts the command. Each thread of this program has its own launcher.

    Raises:
        OSError: the program could not be started, or its output could not be written."""
    launcher = _local.launcher
    if launcher is None or launcher.poll() is not None:
        launcher = _local.launcher = subprocess.Popen(
            [sys.executable, "-I", "-S", "-u", os.fspath(_LAUNCHER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C must not reach the launcher, which ends when its pipe closes
        )
    assert launcher.stdin is not None and launcher.stdout is not None
    request = {
        "argv": command.argv,
        "env": dict(command.env),
        "cwd": os.fspath(command.cwd),
        "stdin": command.stdin,
        "stdout": command.stdout,
        "stderr": command.stderr,
        "output_limit_bytes": command.output_limit_bytes,
        "time_limit_s": command.time_limit_s,
        "memory_limit_bytes": command.memory_limit_bytes,
        "cpus": command.cpus,
        "count_waits": command.count_waits,
    }
    with suppress(BrokenPipeError):  # the launcher was killed; there is no reply
        launcher.stdin.write(json.dumps(request) + "\n")
        launcher.stdin.flush()
    if (text := launcher.stdout.readline()) == "":
        _end_session(launcher.pid)
        text = '{"error": "the launcher process was killed"}'
    reply = json.loads(text)
    if "errno" in reply:
        raise OSError(reply["errno"], reply["error"], reply["file"])
    if "error" in reply:
        raise OSError(f"{command.argv[0]}: {reply['error']}")
    return Outcome(**reply)


def _end_session(session: int) -> None:
    """Kill the processes that a killed launcher left running, such as children of the tool.

    `session` is the number of the launcher's session, to which all these processes belong."""
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):  # the process has ended
            if int((place / "stat").read_text().rpartition(")")[2].split()[3]) == session:
                os.kill(int(place.name), signal.SIGKILL)


def answer(command: Command, stdin: str = "") -> tuple[Outcome, str, str]:
    """Run `command` with the input `stdin`, and return (outcome, stdout, shortened stderr).

    Terminal escape sequences are removed from both texts.

    Raises:
        OSError: the program could not be started."""
    # The output is written to memory, because files would be incomplete if the disk is full.
    files = {name: os.memfd_create(name) for name in ("stdin", "stdout", "stderr")}
    try:
        os.write(files["stdin"], stdin.encode())
        path = {name: f"/proc/{os.getpid()}/fd/{number}" for name, number in files.items()}
        whole = replace(command, stdin=path["stdin"], stdout=path["stdout"], stderr=path["stderr"])
        outcome = run(replace(whole, output_limit_bytes=_ANSWER_BYTES))
        said = [os.pread(files[name], os.fstat(files[name]).st_size, 0) for name in ("stdout", "stderr")]
    finally:
        for number in files.values():
            os.close(number)
    stdout, stderr = (text.decode(errors="replace") for text in said)
    return outcome, plain(stdout), _short(stderr, _SHOWN_BYTES // 2)


def shortened(path: Path, limit: int = _SHOWN_BYTES) -> str:
    """Return the text of a tool's output file, without its middle if it has more than `limit` characters.

    A line in place of the middle says how many characters are left out. The result is empty if the file is missing."""
    return _short(path.read_bytes().decode(errors="replace"), limit) if path.exists() else ""


def _short(text: str, limit: int) -> str:
    text = text.strip()
    if len(text) > limit:
        half = limit // 2
        text = f"{text[:half]}\n… {len(text) - limit} characters left out …\n{text[-half:]}"
    return plain(text)


def spelled(variables: Mapping[str, str]) -> str:
    """Return shell text that sets `variables`, such as `A=1 B='x y'`."""
    return " ".join(f"{name}={quoted([value])}" for name, value in variables.items())


def quoted(argv: Sequence[str]) -> str:
    """Return `argv` as one line of shell text."""
    import shlex  # only for messages

    return shlex.join(argv)
