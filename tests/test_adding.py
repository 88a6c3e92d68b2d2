"""The walk of docs/adding.md: its operation, as it stands there, in a copy of this tree."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from real import LIMIT_S, REPOSITORY, environment

pytestmark = pytest.mark.iree


def test_one_file_adds_an_operation(tmp_path: Path) -> None:
    (tmp_path / "dodo.py").write_text("from dispatchflow import main\n\nmain()\n")
    shutil.copytree(REPOSITORY / "dispatchflow", tmp_path / "dispatchflow")
    (code,) = re.findall(
        r'^```python\n("""y\[m\] = Σ_k x.*?)^```', (REPOSITORY / "docs/adding.md").read_text(), re.M | re.S
    )
    (tmp_path / "dispatchflow/operations/row_sum.py").write_text(code)
    words = ["operation=row_sum", "m=16", "k=40", "dtype=f32,i32", "target=llvm-cpu,vmvx", "threads=1", "verify"]

    found = subprocess.run(
        [sys.executable, "-m", "doit", *words], cwd=tmp_path, env=environment({"PYTHONPATH": str(tmp_path)}),
        capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL,
    )  # fmt: skip

    assert found.returncode == 0, found.stdout + found.stderr
    assert "4 cases: 4 compiled, 4 verified" in found.stdout.replace("4 emitted, ", "").replace("2 emitted, ", "")
