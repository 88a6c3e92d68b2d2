"""Names and paths of any bytes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from real import Project, sweep

pytest_plugins = ["real"]
pytestmark = pytest.mark.iree


@pytest.mark.parametrize("name", ["a 'b' \"c\" $HOME é 名", "x=1, %s; *?[a]", "you@home"])
def test_a_directory_may_have_any_name(name: str, made: Project, tmp_path: Path) -> None:
    project = made.copy(tmp_path / name)
    project.add(sweep(m=20))

    counts, outcome = project.made_by("protocol=fast")

    assert counts == {"emit": 1, "compile": 1, "verify": 1, "profile": 1}, outcome
    assert "5 cases: " in outcome.out
    folder = project.root / "build" / "matmul_20x16x16_f32t_f32t_f32t_default@llvm-cpu-1t"
    for word, said in (("compile", "same bytes\n"), ("run", "")):
        found = subprocess.run([folder / "repro.sh", word], cwd="/", env={}, capture_output=True, text=True)
        assert (found.returncode, found.stdout.endswith(said)) == (0, True), found.stderr
    assert project.doit("explain", f"profile:{folder.name}").code == 0


def test_spec_files_may_have_any_name(made: Project, tmp_path: Path) -> None:
    project = made.copy(tmp_path / "p")
    project.add(sweep(m=0), "ein 'Größen' \"Test\".toml")

    outcome = project.doit("list")

    assert outcome.code == 2
    assert "specs/ein 'Größen' \"Test\".toml:1, sweep[0].m" in outcome.err
