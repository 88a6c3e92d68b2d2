"""Let one worker of pytest-xdist make what all workers need, while the other workers wait."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """Return the folder `name`, which `make` fills once in a pytest session for all workers.

    Tests may change copies of the folder, but not the folder itself. If `make` fails, the next caller runs `make`
    again."""
    base = factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, done = shared / name, shared / f"{name}.done"
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            make(folder)
            done.touch()
    return folder
