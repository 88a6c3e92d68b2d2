"""A trace is captured even if its file is written late; after a failure or a hang, no process is left.

In these tests, a script replaces the tool that captures the trace."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dispatchflow.errors import ToolError
from dispatchflow.tools import tracing
from tests.support.tools import processes_in, write_script

ATTACHED = "echo 'Connecting to 127.0.0.1:1...'; echo 'Queue delay: 1 ns'"
WRITES = 'echo trace > "$3"'
NEVER = "echo 'Connecting to 127.0.0.1:1...'; exec sleep 600"


def capture(
    folder: Path, tool: str, program: str, monkeypatch: pytest.MonkeyPatch, limit_s: float = 30.0, grace_s: float = 0.3
) -> tracing.Traced:
    monkeypatch.setattr(tracing, "_GRACE_S", grace_s)
    tools = folder / "iree/_runtime_libs_tracy"
    tools.mkdir(parents=True)
    write_script(tools / "iree-tracy-capture", tool)
    (scratch := folder / "scratch").mkdir()
    runtime = tracing.runtime_beside(folder / "iree/_runtime_libs")
    files = (os.fspath(folder / name) for name in ("stdout", "stderr"))
    traced = tracing.Program(("/bin/sh", "-c", program), folder, dict(os.environ), *files)
    try:
        return tracing.capture(runtime, traced, scratch, limit_s, None)
    finally:
        assert processes_in(folder) == []


def test_a_capture_may_write_its_file_long_after_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = capture(tmp_path, f"{ATTACHED}; sleep 1; {WRITES}", "exit 3", monkeypatch)
    assert made.file.read_text() == "trace\n" and made.failure == "exit code 3"


def test_the_program_has_a_port_of_its_own_that_only_this_machine_reaches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = 'echo "$TRACY_PORT $TRACY_NO_EXIT $TRACY_ONLY_LOCALHOST"'
    capture(tmp_path, f'{ATTACHED}; echo "$7" > "$3"', shown, monkeypatch)
    port, *rest = (tmp_path / "stdout").read_text().split()
    assert rest == ["1", "1"] and (tmp_path / "scratch/trace.tracy").read_text() == f"{port}\n"


def test_a_program_that_never_attaches_ends_the_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ToolError, match="never traced") as refused:
        capture(tmp_path, NEVER, "exit 3", monkeypatch)
    assert "exit code 3" in str(refused.value) and "import iree.runtime" in refused.value.hint


def test_a_program_that_waits_for_a_failed_capture_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ToolError, match="iree-tracy-capture failed") as refused:
        capture(tmp_path, "echo 'incompatible protocol version'; exit 2", "exec sleep 600", monkeypatch)
    assert "incompatible protocol version" in str(refused.value)


def test_at_the_limit_all_processes_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ToolError, match="at the limit") as refused:
        capture(tmp_path, NEVER, "sleep 600 & exec sleep 600", monkeypatch, limit_s=0.5)
    assert "Connecting to" in str(refused.value) and "block_limit=" in refused.value.hint


def test_a_release_without_the_instrumented_runtime_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="no Tracy runtime") as refused:
        tracing.runtime_beside(tmp_path / "tools")
    assert "Linux only" in refused.value.hint
