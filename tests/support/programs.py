"""Programs that tests of processes run, and an odd directory for them.

A plugin that test files import from as well: PYTEST_DONT_REWRITE, or pytest warns that it came too late.
"""

import sys
from pathlib import Path

import pytest

from dispatchflow.tools.outcome import Outcome
from dispatchflow.tools.processes import Command, run

SHELL = "/bin/sh"


@pytest.fixture
def folder(tmp_path):
    """Odd on purpose."""
    path = tmp_path / "a b'\"$x"
    path.mkdir()
    return path


def shell(folder: Path, script: str, **more) -> Outcome:
    return run(Command((SHELL, "-c", script), folder, **more))


def python(folder: Path, script: str, *arguments: str, **more) -> Outcome:
    return run(Command((sys.executable, "-I", "-S", "-c", script, *arguments), folder, **more))
