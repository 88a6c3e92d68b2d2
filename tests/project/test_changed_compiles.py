"""If a compile is repeated and gives other bytes than before, the change is reported.

The new code is verified before it is measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.project import Project, sweep
from support.tools import toolchain

pytest_plugins = ["support.project"]
pytestmark = pytest.mark.iree


def test_a_compile_that_gives_other_bytes_is_reported_and_its_record_stays(tmp_path: Path) -> None:
    mark = tmp_path / "changed"
    script = f'[ -e {mark} ] && set -- "$@" --iree-opt-level=O3\nexec "$real" "$@"'
    path = toolchain(tmp_path / "iree", iree_compile=script)
    project = Project.make(tmp_path / "p", sweep(target="vmvx"))
    assert project.doit("compile", PYTHONPATH=path).code == 0
    records = project.query("select * from record")
    assert project.doit("store", "check", PYTHONPATH=path).code == 0
    mark.touch()

    outcome = project.doit("store", "check", PYTHONPATH=path)

    assert outcome.code == 1, str(outcome)
    assert "NOT REPRODUCIBLE: vmfb " in outcome.out
    assert project.query("select * from record") == records


def test_code_that_changed_under_its_key_is_verified_before_it_is_measured(tmp_path: Path) -> None:
    mark = tmp_path / "changed"
    script = f'[ -e {mark} ] && set -- "$@" --iree-opt-level=O3\nexec "$real" "$@"'
    path = toolchain(tmp_path / "iree", iree_compile=script)
    project = Project.make(tmp_path / "p", sweep(target="vmvx"))
    words = ("protocol=fast",)
    assert project.doit(*words, PYTHONPATH=path).code == 0
    of_case = "select key from latest where stage = 'compile'"
    for (vmfb,) in project.query(f"select outputs ->> 'vmfb' from record where key in ({of_case})"):
        (project.store / "objects" / vmfb[:2] / vmfb[2:]).unlink()
    mark.touch()
    verified = project.counts()["verify"]

    outcome = project.doit(*words, "remeasure=yes", PYTHONPATH=path)

    assert "is not reproducible: its compile gave code " in outcome.err, str(outcome)
    assert project.counts()["verify"] > verified
    measured = [row for row in project.rows() if row["status"] in ("measured", "noisy")]
    assert all(row["verification"] in ("equal", "within bound") for row in measured)
