"""A missing `perf` or a missing permission to take samples is reported in one error with a hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from dispatchflow.errors import ToolError
from dispatchflow.tools import sampling

DENIED = """
Error:
Access to performance monitoring and observability operations is limited.
Consider adjusting /proc/sys/kernel/perf_event_paranoid setting to open
"""


def test_a_missing_perf_is_reported_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling.shutil, "which", lambda name: None)
    with pytest.raises(ToolError, match="perf is not installed") as caught:
        sampling.perf()
    assert "linux-perf" in caught.value.hint
    monkeypatch.setattr(sampling.sys, "platform", "darwin")
    with pytest.raises(ToolError, match="only Linux has"):
        sampling.perf()


@pytest.mark.parametrize("said", (DENIED, "perf_event_open(...) failed: Operation not permitted\n"))
@pytest.mark.parametrize(
    ("level", "hint"),
    [
        ("4", "sysctl kernel.perf_event_paranoid=2"),
        (None, "sysctl kernel.perf_event_paranoid=2"),
        ("2", "This setting allows it."),
    ],
)
def test_a_missing_permission_of_perf_is_reported_with_the_setting(
    said: str, level: str | None, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "_LEVEL", tmp_path / "level")
    if level is not None:
        (tmp_path / "level").write_text(f"{level}\n")
    error = sampling.refused(said)
    assert error is not None and error.problem == "perf may not take samples here"
    assert error.facts["kernel.perf_event_paranoid"] == (level or "unknown") and hint in error.hint


def test_another_failure_is_not_called_a_missing_permission() -> None:
    assert sampling.refused("iree-benchmark-module: INVALID_ARGUMENT; no such function\n") is None
