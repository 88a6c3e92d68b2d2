"""The code blocks of docs/python.md run one after another in a new directory."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.project import REPOSITORY
from support.tools import environment, finished

PAGE = (REPOSITORY / "docs/python.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.iree
def test_the_blocks_of_the_page_run(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", "\n".join(BLOCKS)], cwd=tmp_path, env=environment({}), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    outcome = finished(process)

    assert outcome.code == 0, str(outcome)
    measured = [line for line in outcome.out.splitlines() if line.startswith(("hot ", "cold weights "))]
    assert len(measured) == 2 and all("within bound" in line for line in measured), str(outcome)
