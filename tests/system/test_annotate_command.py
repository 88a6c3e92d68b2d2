"""`doit annotate` shows a site's hottest instructions; the tests use the real compiler and `perf`.

Tests that take samples are skipped if `perf` is not available."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from dispatchflow.tools import toolchain
from tests.support.project import Project

pytestmark = pytest.mark.iree

WORDS = ("m=64", "n=64", "k=64", "threads=1", "tuning=data_tiling", "protocol=fast")


@cache
def samples() -> bool:
    """Return whether perf and objdump are installed, and perf has the permission to take samples."""
    if not (shutil.which("perf") and shutil.which("objdump")):
        return False
    argv = ["perf", "record", "-q", "-e", "cpu-clock", "-o", "/dev/null", "--", "true"]
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project.make(tmp_path_factory.mktemp("annotate") / "p")


@pytest.mark.skipif(not samples(), reason="perf is not here, or may not take samples")
def test_the_hottest_instructions_of_a_site_are_shown(project: Project) -> None:
    tool = toolchain.installed()[1] / "iree-benchmark-module"
    before = tool.stat().st_ctime_ns
    out = project.doit(*WORDS, "annotate", "site=3", "top=5")
    assert out.code == 0, out
    header, columns, *lines, samples_line, code = out.out.splitlines()
    assert header.startswith("site 3 of matmul_") and columns.split() == ["share", "address", "instruction"]
    assert len(lines) == 5
    assert " samples in " in samples_line and code.startswith("machine code: the same as the case's own (")
    # A hard link in perf's own cache would change the tool's ctime, and the next run would identify the tool again.
    assert tool.stat().st_ctime_ns == before
    # A sample may be attributed to an instruction after the one that took the time, so that a slow multiply-add need
    # not be among the first five (seen on an AMD EPYC with AVX2).
    assert "fmadd" in project.doit(*WORDS, "annotate", "site=3", "top=50").out


@pytest.mark.skipif(not samples(), reason="perf is not here, or may not take samples")
def test_several_sites_and_unknown_ones_are_listed(project: Project) -> None:
    none, wrong = project.doit(*WORDS, "annotate"), project.doit(*WORDS, "annotate", "site=30")
    assert none.code == wrong.code == 2
    assert "has 3 sites" in none.err and "Name one: site=1." in none.err and "there is no site 30:" in wrong.err


def test_other_targets_and_a_missing_perf_are_refused(project: Project, tmp_path: Path) -> None:
    other = project.doit("m=64", "n=64", "k=64", "target=vmvx", "annotate")
    assert other.code == 2 and "annotate takes llvm-cpu" in other.err
    missing = project.doit(*WORDS, "annotate", PATH=str(tmp_path))
    assert missing.code == 1 and "perf is not installed" in missing.err


def test_a_perf_without_permission_is_reported_with_the_setting(project: Project, tmp_path: Path) -> None:
    def refused(perf: str) -> str:
        for name, text in (("perf", perf), ("objdump", "exit 1")):
            (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
            (tmp_path / name).chmod(0o755)
        out = project.doit(*WORDS, "annotate", "site=1", PATH=f"{tmp_path}:{os.environ['PATH']}")
        assert out.code == 1
        return out.err

    denied = refused("echo 'Consider adjusting perf_event_paranoid' >&2; exit 255")
    assert "perf may not take samples here" in denied and "kernel.perf_event_paranoid " in denied
    silent = refused("exit 0")
    assert "perf record failed" in silent and "wrote no file" in silent and str(tmp_path / "perf") in silent
    assert "None" not in silent
