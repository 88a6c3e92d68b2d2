"""Run scripts for the shell or Python in a directory with an odd name, to test how processes are run.

Test files import this pytest plugin as an ordinary module too, and pytest would warn about that. The word
PYTEST_DONT_REWRITE in this docstring turns the warning off."""

import sys
from pathlib import Path

import pytest

from dispatchflow.tools.outcome import Outcome
from dispatchflow.tools.processes import Command, run

SHELL = "/bin/sh"


@pytest.fixture
def folder(tmp_path):
    """Return a directory whose name must be quoted in a shell."""
    path = tmp_path / "a b'\"$x"
    path.mkdir()
    return path


def shell(folder: Path, script: str, **more) -> Outcome:
    return run(Command((SHELL, "-c", script), folder, **more))


def python(folder: Path, script: str, *arguments: str, **more) -> Outcome:
    return run(Command((sys.executable, "-I", "-S", "-c", script, *arguments), folder, **more))
