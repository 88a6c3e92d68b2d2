"""Runs a command, tells what it cost, and compares two by pairs."""

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
"""The same words, without the start of doit where nothing changed."""


@dataclass(frozen=True)
class Cost:
    """Of one process and its children; the peak is the largest of them."""

    wall_s: float
    cpu_s: float
    peak_bytes: int
    out: str = ""


@dataclass(frozen=True)
class CommandLine:
    """One line of the table: medians of ours and of what it is compared with, the median of the pairs' ratios; the bar
    that it is held to, if any, and whether it was held."""

    what: str
    ours: str
    against: str = ""
    ratio: float | None = None
    bar: str = ""
    held: bool | None = None


def environment() -> dict[str, str]:
    """A user's: compiled modules are kept, the store is the project's; so is, here, what is known of the machine: each
    project is as the first one."""
    left_out = ("PYTHONDONTWRITEBYTECODE", "DISPATCHFLOW_STORE", "PYTHONPATH", "PYTHONUNBUFFERED")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return kept | {"DISPATCHFLOW_CACHE": ".dispatchflow/machine"}


def run(argv: Sequence[str], folder: Path, stdin: str | None = None, env: Mapping[str, str] | None = None) -> Cost:
    """To its end, which must be a good one. Started from a small process: a child's peak begins with its parent's."""
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
    """Both by turns, now one first and now the other; the median of the pairs' ratios of wall time."""
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
