"""What dispatchflow costs beside the tools that it runs: `python benchmarks/overhead.py`, on a quiet machine.

cold compile  `doit -n 2 'compile:*'` into an empty store, against `xargs -P2` of the bare compiler on the same
              modules with the same flags; the two alternate, the ratio is taken pair by pair.
idle run      the same `doit` again, against the start of stock doit (`doit --version`).
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

DODO = "from dispatchflow import main\nmain()\n"
SPEC = """
[[sweep]]
operation = "matmul"
m = "32:{stop}:32"
n = 128
k = 128
threads = 1
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--pairs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "specs").mkdir()
        (folder / "dodo.py").write_text(DODO)
        (folder / "specs/generated.toml").write_text(SPEC.format(stop=32 * options.cases))
        doit(folder, "emit", "plan")  # what a machine learns once: toolchain digest, host CPU
        print(
            f"{'':<14} {'ours':>9} {'theirs':>9} {'ratio':>7}   medians of {options.pairs} pairs, {options.cases} cases"
        )
        report("cold compile", lambda: cold(folder), lambda: bare(folder), options.pairs)
        report("idle run", lambda: doit(folder, "compile"), lambda: stock(folder), options.pairs)


def report(name: str, ours: Callable[[], float], theirs: Callable[[], float], pairs: int) -> None:
    times = [(ours(), theirs()) for _ in range(pairs)]
    mine, other = (statistics.median(column) for column in zip(*times, strict=True))
    ratio = statistics.median(a / b for a, b in times)
    print(f"{name:<14} {mine:7.3f} s {other:7.3f} s {ratio:7.3f}", flush=True)


def timed(argv: list[str], folder: Path, **options: object) -> float:
    begin = time.monotonic()
    subprocess.run(argv, cwd=folder, check=True, stdout=subprocess.DEVNULL, **options)  # type: ignore[call-overload]
    return time.monotonic() - begin


def doit(folder: Path, *words: str) -> float:
    return timed([sys.executable, "-m", "doit", "-n", "2", *words[:1]], folder)


def stock(folder: Path) -> float:
    return timed([sys.executable, "-m", "doit", "--version"], folder)


def cold(folder: Path) -> float:
    """Empty but for what the machine is known by; the modules are emitted again with everything else."""
    store = folder / ".dispatchflow"
    shutil.rmtree(store / "objects")
    subprocess.run(
        [
            sys.executable,
            "-c",
            "import sqlite3; d = sqlite3.connect('records.sqlite'); d.execute('delete from record'); d.commit()",
        ],
        cwd=store,
        check=True,
    )
    return doit(folder, "compile")


def bare(folder: Path) -> float:
    """The compile lines of each case's repro.sh, two at a time, without us."""
    lines = []
    for script in sorted(folder.glob("build/*/repro.sh")):
        line = next(line for line in script.read_text().splitlines() if "iree-compile" in line)
        scratch = Path(tempfile.mkdtemp(dir=folder))
        lines.append(
            f"cd {shlex.quote(os.fspath(scratch))} && case={shlex.quote(os.fspath(script.parent))} && {line.strip()}"
        )
    commands = "\0".join(lines).encode()
    return timed(["xargs", "-0", "-P2", "-n1", "sh", "-c"], folder, input=commands)


if __name__ == "__main__":
    main()
