"""An interrupted run ends at once and leaves no process, and the next run goes on."""

from __future__ import annotations

import contextlib
import os
import pty
import random
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from support.project import (
    NAME,
    Project,
    assert_each_row_once,
    assert_the_next_run_goes_on,
    assert_whole,
    recorded,
    sweep,
)
from support.tools import QUESTIONS, environment, finished, kill, processes_in, toolchain, wait_until

from dispatchflow.tools import processes

pytest_plugins = ["support.project"]
pytestmark = pytest.mark.iree


@pytest.mark.parametrize(
    ("kind", "moment"),
    [
        (signal.SIGINT, "compiling"),
        (signal.SIGINT, "measuring"),
        (signal.SIGTERM, "measuring"),
        (signal.SIGHUP, "compiling"),
    ],
)
def test_an_interrupted_run_stops_cleanly_and_the_next_one_goes_on(
    kind: signal.Signals, moment: str, copied: Project
) -> None:
    tool = {"compiling": "iree-compile", "measuring": "iree-benchmark-module"}[moment]
    copied.add(sweep(m=[20, 28]))
    process = copied.start("-n", "2", "protocol=fast")
    assert wait_until(lambda: any(tool in words for words in processes_in(copied.root)))

    # Ctrl-C signals the terminal's whole process group; `kill PID` signals one process.
    (os.killpg if kind is signal.SIGINT else os.kill)(process.pid, kind)
    outcome = finished(process)

    assert outcome.code == 128 + kind
    assert outcome.err == "\ninterrupted; what was finished is recorded, the next run goes on\n"
    assert wait_until(lambda: not processes_in(copied.root), 20), processes_in(copied.root)
    assert_whole(copied)
    assert not copied.query("select reason from record where not ok")

    again = copied.doit("-n", "2", "protocol=fast")
    assert again.code == 0, str(again)
    assert " failed" not in again.out.splitlines()[-1]
    assert {row["m"] for row in copied.rows()} == {16, 20, 24, 28}
    assert_each_row_once(copied)


def ready(process: subprocess.Popen[str]) -> bool:
    """Return whether the given process, which runs dispatchflow, has installed its signal handlers.

    A signal that arrives earlier ends the process while Python is still starting."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = int(status.partition("SigCgt:")[2].split()[0], 16)
    return bool(caught >> signal.SIGTERM - 1 & 1)


@pytest.mark.parametrize("rounds", [6, pytest.param(100, marks=[pytest.mark.slow, pytest.mark.nightly])])
def test_a_signal_at_any_moment_once_or_twice_ends_it_without_a_traceback(rounds: int, tmp_path: Path) -> None:
    project = Project.make(tmp_path / "p", sweep(m=[4, 5, 6, 7], n=8, k=8, target="vmvx"))
    chance = random.Random(rounds)
    done: set[tuple[object, ...]] = set()
    ends = Counter[int]()

    for number in range(rounds):
        again = ["remeasure=yes"] if number > rounds // 2 else []
        kind = chance.choice([signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
        process = project.start("-n", "2", "protocol=fast", *again)
        # A run that has nothing to do may end before `ready` is called.
        assert wait_until(lambda: process.poll() is not None or ready(process))  # noqa: B023
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=chance.uniform(0, 1.5))
        before = recorded(project)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, kind)
            if chance.random() < 0.5:
                time.sleep(chance.uniform(0, 0.03))
                os.killpg(process.pid, kind)
        outcome = finished(process)

        ends[outcome.code] += 1
        assert outcome.code in (0, 128 + kind, -kind), str(outcome)
        assert "Exception" not in outcome.err, str(outcome)
        assert wait_until(lambda: not processes_in(project.root), 20), processes_in(project.root)
        if before:
            assert_whole(project)
            assert done | before <= recorded(project)
        done = recorded(project)

    assert sum(count for code, count in ends.items() if code) >= rounds // 2
    assert_the_next_run_goes_on(project, done)
    assert len({row["case"] for row in project.rows()}) == 4
    assert list((project.store / "tmp").iterdir()) == []


# A dodo.py in which the cleanup after a first Ctrl-C never ends and suppresses every exception.
STUCK = """\
import contextlib, threading
from dispatchflow import main
from dispatchflow.cli.progress import Progress

def leave(*unused):
    while True:
        with contextlib.suppress(BaseException):
            threading.Event().wait(60)

Progress.__exit__ = leave
main()
"""


def test_a_second_ctrl_c_ends_a_run_that_is_still_stopping(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "p", sweep(target="vmvx"), dodo=STUCK)
    # On a slow machine, the short measurements of tests would end before they are seen.
    process = project.start(DISPATCHFLOW_TESTS_SHORT_MEASUREMENTS="")
    try:
        assert wait_until(lambda: any("--benchmark_format" in words for words in processes_in(project.store)))
        os.kill(process.pid, signal.SIGINT)
        time.sleep(0.5)
        assert process.poll() is None
        os.kill(process.pid, signal.SIGINT)
        assert finished(process).code == 130
    finally:
        process.kill()
    assert wait_until(lambda: not processes_in(project.root), 20), processes_in(project.root)


INTERRUPTED = """
import os, signal, sys, time
from dispatchflow.cli import main
from dispatchflow.cli.progress import Progress

main._interruptible()
try:
    with Progress({"compile": 1}):
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            if sys.argv[1] == "twice":
                signal.raise_signal(signal.SIGTERM)
except KeyboardInterrupt as interrupt:
    main._interrupted(interrupt)
"""


@pytest.mark.parametrize(("how_often", "code"), [("once", 130), ("twice", 143)])
def test_an_interrupted_run_leaves_the_terminal_its_cursor(how_often: str, code: int) -> None:
    ours, its = pty.openpty()
    argv, variables = [sys.executable, "-c", INTERRUPTED, how_often], environment({"TERM": "xterm"})
    with subprocess.Popen(argv, env=variables, stdout=its, stderr=its) as process:
        os.close(its)
        out = b""
        with contextlib.suppress(OSError):  # Linux raises it when the other end is closed
            while read := os.read(ours, 4096):
                out += read
    os.close(ours)

    assert process.returncode == code, out
    assert 0 <= out.rfind(b"\x1b[?25l") < out.rfind(b"\x1b[?25h"), out


def test_nohup_goes_on(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "p", sweep(target="vmvx"))
    argv = ["nohup", sys.executable, "-m", "doit", "verify"]
    with subprocess.Popen(
        argv, cwd=project.root, env=environment({}), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert wait_until(lambda: processes_in(project.store))
        process.send_signal(signal.SIGHUP)
        out, _ = process.communicate(timeout=60)

    assert (process.returncode, b"1 verified" in out) == (0, True), out


def test_the_process_that_starts_tools_has_its_own_session_from_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions: list[int] = []

    class Watched(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *words: object, **named: object) -> None:
            super().__init__(*words, **named)  # type: ignore[call-overload]
            sessions.append(os.getsid(self.pid))

    monkeypatch.setattr(processes, "_local", processes._Local())
    monkeypatch.setattr(processes.subprocess, "Popen", Watched)

    assert processes.run(processes.Command(("/bin/true",), tmp_path)).failure is None
    assert len(sessions) == 1
    assert sessions[0] != os.getsid(0)


# A tool that answers `--version` and other questions, and hangs in any other call.
HANGS = f'case "$*" in {QUESTIONS}) exec $real "$@";; esac\n/bin/sleep 300 & wait'


KILLED = [(signal.SIGKILL, tool) for tool in ("iree_compile", "iree_run_module", "iree_benchmark_module")]
ASKED = [(signal.SIGINT, "iree_compile"), (signal.SIGTERM, "iree_benchmark_module")]


@pytest.mark.parametrize(("kind", "tool"), KILLED + ASKED)
def test_no_tool_outlives_its_run(kind: signal.Signals, tool: str, copied: Project, tmp_path: Path) -> None:
    # The tool's own child processes are ended too.
    tools = {"PYTHONPATH": toolchain(tmp_path / "tools", **{tool: HANGS})}
    copied.add(sweep(m=20))
    process = copied.start("-n", "2", "protocol=fast", "profile:*_20x*", **tools)
    assert wait_until(lambda: any("sleep 300" in words for words in processes_in(copied.root)))

    os.killpg(process.pid, kind)
    process.communicate(timeout=60)

    assert wait_until(lambda: not processes_in(copied.root), 20), processes_in(copied.root)
    assert_whole(copied)
    # The next run, with the real tools, waits for nothing that the first run left.
    assert copied.doit("protocol=fast", "profile:*_20x*").code == 0


def test_a_run_that_waits_for_a_stopped_process_names_it(copied: Project, tmp_path: Path) -> None:
    other = copied.copy(tmp_path / "other")
    other.add(sweep(m=20))
    # A run with the short measurements of tests might end between the two following lines.
    process = copied.start(
        "protocol=fast", "remeasure=yes", f"profile:{NAME}", DISPATCHFLOW_TESTS_SHORT_MEASUREMENTS=""
    )
    assert wait_until(lambda: any("--benchmark_format" in words for words in processes_in(copied.root)))
    os.kill(process.pid, signal.SIGSTOP)
    waiting = other.start("protocol=fast", "profile:*_20x*")
    assert wait_until(lambda: bool(select.select([waiting.stderr], [], [], 0)[0]))  # it has printed that it waits
    assert waiting.poll() is None
    os.kill(process.pid, signal.SIGCONT)
    outcome = finished(waiting)

    expected = f"waiting for process {process.pid} ({copied.root.owner()}, {copied.root}, stopped), which is measuring"
    # Only the first line is compared: after a long wait, the run also prints that the other process goes on.
    assert (outcome.code, outcome.err.splitlines()[0]) == (0, expected), str(outcome)
    assert finished(process).code == 0


def test_a_stopped_run_does_not_keep_the_next_one_waiting(copied: Project) -> None:
    # The killed run was measuring and held the machine's lock.
    process = copied.start("protocol=fast", "remeasure=yes", f"profile:{NAME}")
    assert wait_until(lambda: any("iree-benchmark-module" in words for words in processes_in(copied.root)))
    kill(process)
    began = time.monotonic()

    assert copied.doit("protocol=fast", "remeasure=yes", f"profile:{NAME}").code == 0
    assert time.monotonic() - began < 60
