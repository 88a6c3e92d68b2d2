"""Measure the cost of a command, and compare two commands in pairs of runs."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from dispatchflow.tools import processes

DOIT = (sys.executable, "-m", "doit")
DISPATCHFLOW = (str(Path(sys.executable).parent / "dispatchflow"),)
"""The command `dispatchflow`, which starts doit only if something changed."""


@dataclass(frozen=True)
class Cost:
    """The time and memory that a process and its children needed.

    `peak_bytes` is the peak memory of the largest of these processes."""

    wall_s: float
    cpu_s: float
    peak_bytes: int
    out: str = ""


@dataclass(frozen=True)
class CommandLine:
    """One line of the table that `python -m benchmarks` prints."""

    what: str
    ours: str
    """dispatchflow's value with its unit, such as a median time."""
    against: str = ""
    """The value to compare with, such as `ninja: 0.110 s`.

    In a line that compares nothing, the text has details of the measurement instead."""
    ratio: float | None = None
    """The median over all pairs of runs: dispatchflow's wall time / the other command's wall time.

    In the line about a complete run, the ratio is the fraction of the run's time that is spent outside IREE's tools."""
    bar: str = ""
    """The limit of the value or of the ratio, such as `≤ 1.10`. Empty if the line has no limit."""
    held: bool | None = None
    """True if the limit was met. None if the line has no limit."""


def environment() -> dict[str, str]:
    """Return environment variables for the measured commands, without variables that only developers set."""
    left_out = ("PYTHONDONTWRITEBYTECODE", "DISPATCHFLOW_STORE", "PYTHONPATH", "PYTHONUNBUFFERED")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    # Facts about the machine are kept in the measured project, not in the user's cache.
    return kept | {"DISPATCHFLOW_CACHE": ".dispatchflow/machine"}


def run(argv: Sequence[str], folder: Path, stdin: str | None = None, env: Mapping[str, str] | None = None) -> Cost:
    """Run a command and return its cost. Exit if the command fails."""
    with tempfile.TemporaryDirectory(prefix="dispatchflow-output-") as output:
        command = processes.Command(
            tuple(argv), folder, env or environment(), stdin, stdout=f"{output}/stdout", stderr=f"{output}/stderr"
        )
        outcome = processes.run(command)
        if outcome.failure:
            stderr = processes.shortened(Path(output) / "stderr")
            raise SystemExit(f"{processes.quoted(argv)} in {folder}: {outcome.failure}\n{stderr}")
        out = (Path(output) / "stdout").read_text(errors="replace")
    return Cost(outcome.wall_s, outcome.cpu_s, outcome.peak_bytes, out)


def pairs(ours: Callable[[], Cost], theirs: Callable[[], Cost], count: int) -> tuple[list[Cost], list[Cost], float]:
    """Run `ours` and `theirs` in pairs, `count` times each. Every second pair runs `theirs` first.

    Return the costs of `ours`, the costs of `theirs`, and the median of the ratios of their wall times (ours / theirs).
    """
    found: tuple[list[Cost], list[Cost]] = ([], [])
    for number in range(count):
        sides = [(0, ours), (1, theirs)]
        for side, action in sides if number % 2 == 0 else sides[::-1]:
            found[side].append(action())
    ratio = median(a.wall_s / b.wall_s for a, b in zip(*found, strict=True))
    return *found, ratio


def wall_s(costs: Sequence[Cost]) -> float:
    return median(cost.wall_s for cost in costs)


def peak_bytes(costs: Sequence[Cost]) -> int:
    return max(cost.peak_bytes for cost in costs)
