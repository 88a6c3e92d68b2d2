"""Explain noisy rows by the recorded conditions of the machine, such as its load average."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_TICKS_PER_S = 100  # USER_HZ, the unit of /proc/stat
_STOLEN_TICKS = 10
_SLOWER, _APART = 1.03, 0.03
_OTHERS = 1.0
"""A load average is unusual if it exceeds a case's number of threads by more than this value.

The run's own compiles cause some load."""


def conditions(rows: Sequence[Mapping[str, Any]]) -> str | None:
    """Return one line with the conditions of the machine that may explain why `rows` are noisy.

    Returns None if no condition was unusual. `rows` are the noisy rows of this run."""
    found = list(_conditions(rows))
    return f"during these measurements: {'; '.join(found)}" if found else None


def _conditions(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    ticks = max((row.get("steal_ticks") or 0 for row in rows), default=0)
    if ticks >= _STOLEN_TICKS:
        yield f"the hypervisor took {ticks / _TICKS_PER_S:.2f} s of CPU time"
    apart = max((row.get("session_factor_uncertainty") or 0.0 for row in rows), default=0.0)
    if apart > _APART:
        yield f"the machine's speed changed (the times of fixed kernels, the anchors, varied by ±{apart:.0%})"
    loads = [(row.get("load_1m") or 0.0, row.get("threads") or 1) for row in rows]
    if loads and (most := max(loads))[0] > most[1] + _OTHERS:
        yield f"load average {most[0]:.1f} when the measurement began (this run's own compiles add to it)"
    slowest = max((row.get("session_factor") or 1.0 for row in rows), default=1.0)
    if slowest > _SLOWER:
        yield f"the machine was slower than in its first run (the anchors took {slowest - 1:.0%} longer)"
    if governors := {row["governor"] for row in rows if row.get("governor") not in (None, "performance")}:
        yield f"the CPU's governor is {', '.join(sorted(governors))}, which changes the frequency"
