"""If standard output is closed or its disk is full, no work is lost."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from support.project import Project, sweep
from support.tools import environment, finished

pytest_plugins = ["support.project"]
pytestmark = pytest.mark.iree

RECORDED = "What was finished is recorded; the next run goes on."


@pytest.fixture
def project(copied: Project) -> Project:
    copied.add(sweep(m=[20, 21, 22]))
    return copied


def shell(project: Project, script: str, code: int) -> str:
    """Run a line of bash, check its exit code, and return its stderr.

    The word `doit` in the line runs the doit of this Python environment."""
    script = script.replace("doit", f"{sys.executable} -m doit")
    done = subprocess.run(
        ["bash", "-c", script], cwd=project.root, env=environment({}), capture_output=True, text=True, timeout=120
    )
    assert "Traceback" not in done.stderr, done
    assert done.returncode == code, done
    return done.stderr


def test_a_closed_pipe_ends_a_run_with_a_message(project: Project) -> None:
    said = shell(project, "doit verify | head -1; exit ${PIPESTATUS[0]}", 128 + signal.SIGPIPE)

    assert "standard output cannot be written" in said and RECORDED in said
    assert "nothing to run" not in project.doit("plan", "verify").out
    assert project.doit("verify").code == 0


def test_a_pipe_that_is_closed_early_is_no_error_without_work_to_do(project: Project) -> None:
    assert shell(project, "doit list --all emit compile verify profile | head -1; exit ${PIPESTATUS[0]}", 0) == ""
    assert project.doit("verify").code == 0
    assert shell(project, "doit verify | head -1; exit ${PIPESTATUS[0]}", 0) == ""


def test_a_full_disk_behind_standard_output_is_named(project: Project) -> None:
    assert "found  No space left on device" in shell(project, "doit compile > /dev/full", 2)
    assert project.doit("verify").code == 0
    said = shell(project, "doit verify > /dev/full", 2)
    assert "standard output cannot be written" in said and "store clean" not in said


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_output_to_a_closed_stream_is_discarded(closed: str, project: Project) -> None:
    shell(project, f"doit verify {closed}", 0)
    shell(project, f"doit verify {closed}", 0)
    assert "7 cases: up to date" in project.doit("verify").out


@pytest.mark.parametrize("stderr", ["the terminal", "a file"])
def test_a_terminal_that_is_closed_interrupts_a_run(stderr: str, project: Project, tmp_path: Path) -> None:
    ours, its = pty.openpty()
    with (tmp_path / "stderr").open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "doit", "verify"], cwd=project.root, env=environment({"TERM": "xterm"}),
            stdin=its, stdout=its, stderr=its if stderr == "the terminal" else file,
            start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
    os.close(its)
    seen = b""
    while b"compile" not in seen:
        seen += os.read(ours, 65536)
    os.close(ours)

    assert process.wait(60) == 128 + signal.SIGHUP, (tmp_path / "stderr").read_text()
    assert "Traceback" not in (tmp_path / "stderr").read_text()
    assert finished(project.start("verify")).code == 0
