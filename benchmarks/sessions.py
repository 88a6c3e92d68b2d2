"""Time six cases repeatedly; count how often the interval of a median contains the case's next median.

    python -m benchmarks.sessions --folder sessions           # four times 30 runs, about 35 minutes; can be resumed
    python -m benchmarks.sessions --folder sessions --table   # the results so far

There are 30 runs for each of two protocols (`std` and `fast`) and each of two conditions (`quiet` and `busy`). In the
condition `busy`, another process computes on the first CPU, with pauses of random length. Cases run on another core.

Each run is a new process in a copy of the previous run's project. The store of the copy has all earlier measurements.
Times may depend on the pages of memory that hold the project's files, and these pages are new for each copy."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, pairwise, permutations
from math import log
from pathlib import Path
from statistics import median, stdev
from typing import Any

from benchmarks import timing
from dispatchflow.reports.table import markdown
from dispatchflow.results import parquet
from dispatchflow.timing.protocols import PROTOCOLS

SPEC = """
[[sweep]]
operation = "matmul"
shape = ["64x64x64", "256x256x256"]
threads = 1
[[sweep]]
operation = "softmax"
shape = "128x512"
threads = 1
[[sweep]]
operation = "reduction"
shape = "512x1000"
threads = 1
[[sweep]]
operation = "conv2d"
shape = "1x28x28x16x32x3x3"
threads = 1
[[sweep]]
operation = "matmul"
shape = "64x64x64"
target = "vmvx"
threads = 1
"""
CONDITIONS = ("quiet", "busy")
_BUSY = """
import os, random, time
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
lot = random.Random()
while os.getppid() == int(os.environ["PARENT"]):
    end = time.monotonic() + lot.expovariate(1 / 0.8)
    while time.monotonic() < end:
        sum(i * i for i in range(20000))
    time.sleep(lot.expovariate(1 / 0.8))
"""
_KEPT = (
    "case", "status", "median_ns", "ci_low_ns", "ci_high_ns", "later_low_ns", "later_high_ns", "anchored_median_ns",
    "anchored_low_ns", "anchored_high_ns", "session_factor", "within_session", "between_sessions", "steal_ticks",
    "load_1m",
)  # fmt: skip
INTERVALS = {
    "within the session": ("median_ns", "ci_low_ns", "ci_high_ns"),
    "± (another session)": ("median_ns", "later_low_ns", "later_high_ns"),
    "anchored": ("anchored_median_ns", "anchored_low_ns", "anchored_high_ns"),
}

Run = dict[str, dict[str, Any]]
"""The rows of one run: a dict from case to row. A row is a dict from column to value."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where runs are kept; a later call continues there")
    parser.add_argument("--runs", type=int, default=30, help="number of runs of each condition and protocol")
    parser.add_argument("--condition", choices=CONDITIONS, action="append", help="may be repeated; default: both")
    parser.add_argument("--protocol", choices=PROTOCOLS, action="append", help="may be repeated; default: std and fast")
    parser.add_argument("--table", action="store_true", help="only print the table")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for protocol in options.protocol or ("std", "fast"):
        for condition in options.condition or CONDITIONS:
            if not options.table:
                measure(options.folder.resolve(), protocol, condition, options.runs)
    found = {part.stem: runs for part in sorted(options.folder.glob("*.jsonl")) if len(runs := read(part)) > 1}
    print(f"\n{table(found)}\n\n{cases(found)}")


def read(part: Path) -> list[Run]:
    return [json.loads(line)["rows"] for line in part.read_text().splitlines()] if part.exists() else []


def measure(folder: Path, protocol: str, condition: str, runs: int) -> None:
    """Run the six cases again and again, until `folder` has the results of `runs` runs.

    Only runs with this `protocol` and this `condition` (`quiet` or `busy`) count. Runs of earlier calls count too."""
    part, last = folder / f"{protocol}-{condition}.jsonl", folder / f"{protocol}-{condition}"
    template = _template(folder)
    for number in range(len(read(part)), runs):
        began = time.monotonic()
        with _beside(condition):
            project = copied(last if last.exists() else template, folder / "run")
            timing.run([*timing.DOIT, f"protocol={protocol}", "remeasure=0"], project)
        rows = newest(parquet.read(project / ".dispatchflow/results"))
        with part.open("a") as stream:
            stream.write(json.dumps({"at": time.time(), "rows": rows}) + "\n")
        shutil.rmtree(last, ignore_errors=True)
        project.rename(last)
        factor = next(iter(rows.values()))["session_factor"]
        print(
            f"{part.stem} {number + 1}/{runs}: {time.monotonic() - began:.0f} s, factor {factor:.3f}, load {os.getloadavg()[0]:.2f}",
            flush=True,
        )


def _template(folder: Path) -> Path:
    """Set up a project whose cases are verified but not measured."""
    project = folder / "template"
    if not (project / "ready").exists():
        shutil.rmtree(project, ignore_errors=True)
        (project / "specs").mkdir(parents=True)
        (project / "dodo.py").write_text("from dispatchflow import main\n\nmain()\n")
        (project / "specs/six.toml").write_text(SPEC)
        timing.run([*timing.DOIT, "verify"], project)
        (project / "ready").touch()
    return project


def copied(before: Path, project: Path) -> Path:
    """Replace `project` by a copy of the project `before`. Return `project`."""
    shutil.rmtree(project, ignore_errors=True)
    shutil.copytree(before, project, symlinks=True)
    return project


def newest(rows: Iterable[dict[str, Any]]) -> Run:
    """Return the newest row of each case, with the columns that the tables need."""
    in_order = sorted(rows, key=lambda row: row["measured_at"])
    return {row["case"]: {name: row[name] for name in _KEPT} for row in in_order}


@contextlib.contextmanager
def _beside(condition: str) -> Iterator[None]:
    if condition == "quiet":
        yield
        return
    process = subprocess.Popen([sys.executable, "-c", _BUSY], env={**os.environ, "PARENT": str(os.getpid())})
    try:
        yield
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def table(found: dict[str, list[Run]]) -> str:
    """Return a table with one line for each item of `found` and each kind of interval (`INTERVALS`).

    A key of `found` is a protocol and a condition, such as `std-busy`. The column `apart` has the fraction of pairs
    of runs whose intervals do not overlap. The column `spread` has the standard deviation of log(median) between
    runs."""
    rows = []
    for name, runs in found.items():
        for which, columns in INTERVALS.items():
            rows.append({"condition": name, "runs": len(runs), "interval": which, **_covered(runs, columns)})
    return markdown(
        ("condition", "runs", "interval", "±", "next inside", "any other inside", "apart", "spread", "marked NOISY"),
        rows,
    )


def _covered(runs: Sequence[Run], columns: tuple[str, str, str]) -> dict[str, str]:
    value, low, high = columns
    inside: dict[str, list[bool]] = {"next": [], "other": [], "apart": []}
    spread, halves, noisy = [], [], []
    for case in runs[0]:
        every = [run[case] for run in runs]
        rows = [row for row in every if row.get(low) is not None]
        stated = [(a, b) for a, b in pairwise(every) if a.get(low) is not None and b.get(value) is not None]
        inside["next"] += [a[low] <= b[value] <= a[high] for a, b in stated]
        inside["other"] += [a[low] <= b[value] <= a[high] for a, b in permutations(rows, 2)]
        inside["apart"] += [a[high] < b[low] or b[high] < a[low] for a, b in combinations(rows, 2)]
        spread.append(stdev(log(row[value]) for row in rows) if len(rows) > 1 else 0.0)
        halves += [(row[high] - row[low]) / 2 / row[value] for row in rows]
        noisy += [row["status"] == "noisy" for row in rows]
    if not halves:
        return {}
    parts = {word: f"{sum(values) / max(1, len(values)):.1%}" for word, values in inside.items()}
    return {
        "±": f"{median(halves):.1%}",
        "next inside": parts["next"],
        "any other inside": parts["other"],
        "apart": parts["apart"],
        "spread": f"{median(spread):.2%}",
        "marked NOISY": f"{sum(noisy)} of {len(noisy)}",
    }


def cases(found: dict[str, list[Run]]) -> str:
    """Return a table of how much the medians of each case differ between runs.

    The cells are standard deviations of log(median). In the column `anchored`, the medians are corrected by the
    times of anchors, which are kernels that never change."""
    rows = []
    for name, runs in found.items():
        for case in runs[0]:
            having = [run[case] for run in runs if run[case].get("anchored_median_ns")]
            if len(having) > 1:
                plain, anchored = (
                    stdev(log(row[column]) for row in having) for column in ("median_ns", "anchored_median_ns")
                )
                rows.append({"condition": name, "case": case, "plain": f"{plain:.2%}", "anchored": f"{anchored:.2%}"})
    return markdown(("condition", "case", "plain", "anchored"), rows)


if __name__ == "__main__":
    main()
