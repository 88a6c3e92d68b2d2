"""The folder of a case in `build/` has all the case's files, and `repro.sh` repeats the case's steps."""

from __future__ import annotations

import json
import subprocess

import numpy as np
import pytest
from support.project import NAME, Project

from dispatchflow.verification.verdict import compare_bounded

pytest_plugins = ["support.project"]
pytestmark = pytest.mark.iree


def repro(project: Project, word: str) -> subprocess.CompletedProcess[str]:
    script = project.root / "build" / NAME / "repro.sh"
    return subprocess.run([script, word], cwd="/", env={}, capture_output=True, text=True, timeout=120)


def test_the_view_shows_every_artifact(made: Project) -> None:
    folder = made.root / "build" / NAME
    names = {path.name for path in folder.iterdir()}

    assert {"module.mlir", "module.vmfb", "configurations.mlir", "repro.sh"} <= names
    assert {"exact_0.bin", "exact_1.bin", "random_0.bin", "random_1.bin", "expected_exact.bin"} <= names
    for path in folder.iterdir():
        assert path.resolve(strict=True).stat().st_size > 0
        assert path.suffix in (".sh", ".txt") or (path.is_symlink() and made.store in path.resolve().parents)
    assert "linalg.matmul" in (folder / "module.mlir").read_text()
    assert {path.name for path in (made.root / "build/results").iterdir()} == made.parts()


def test_repro_compiles_the_same_bytes(made: Project) -> None:
    found = repro(made, "compile")

    assert (found.returncode, found.stdout) == (0, "same bytes\n"), found.stderr


def test_repro_runs_to_the_same_result(copied: Project) -> None:
    found = repro(copied, "run")

    assert found.returncode == 0, found.stderr
    folder = copied.root / "build" / NAME
    got, (reference, tolerance) = (
        np.fromfile(folder / "again.bin", np.float32),
        (np.fromfile(folder / f"expected_random_{name}.bin", np.float64) for name in ("reference", "tolerance")),
    )
    assert compare_bounded(got, reference, tolerance).passed


def test_repro_benchmarks(made: Project) -> None:
    found = repro(made, "benchmark")

    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["benchmarks"]


def test_repro_without_a_word_prints_the_allowed_words(made: Project) -> None:
    found = repro(made, "")

    assert found.returncode == 2
    assert "compile | run | benchmark" in found.stderr
