"""Run `doit WORDS` and write to a file how it spent its time.

Usage: `python traced_doit.py NOTE.json WORDS`. NOTE.json gets the wall time, the CPU time of this process alone, the
number of runs of IREE's tools, and the time during which at least one tool ran."""

from __future__ import annotations

import atexit
import json
import resource
import sys
import threading
import time
from pathlib import Path

from doit.__main__ import main as doit

from dispatchflow.tools import processes
from dispatchflow.tools.outcome import Outcome

_began = time.monotonic()
_spans: list[tuple[float, float]] = []
_lock = threading.Lock()
_run = processes.run


def _noted(command: processes.Command) -> Outcome:
    begin = time.monotonic()
    try:
        return _run(command)
    finally:
        with _lock:
            _spans.append((begin, time.monotonic()))


def covered(spans: list[tuple[float, float]]) -> float:
    """Return the number of seconds that at least one span covers. A span is (begin, end), in seconds."""
    total, until = 0.0, 0.0
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total


def _note(path: Path) -> None:
    own = resource.getrusage(resource.RUSAGE_SELF)
    found = {
        "wall_s": time.monotonic() - _began,
        "tools_s": covered(_spans),
        "own_cpu_s": own.ru_utime + own.ru_stime,
        "tools": len(_spans),
    }
    path.write_text(json.dumps(found))


if __name__ == "__main__":
    atexit.register(_note, Path(sys.argv.pop(1)))
    processes.run = _noted
    sys.path[0] = ""  # the working directory, as for `python -m doit`, instead of this folder
    sys.argv[0] = "doit"
    sys.exit(doit())
