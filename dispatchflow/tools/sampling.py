"""Find the tools `perf` and `objdump`, and explain why `perf` cannot sample a program's instructions."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from dispatchflow.errors import ToolError

_LEVEL = Path("/proc/sys/kernel/perf_event_paranoid")
_ENOUGH = ("-1", "0", "1", "2")
"""The values of kernel.perf_event_paranoid with which users may sample their own programs."""
_DENIED = ("paranoid", "not permitted", "Permission denied", "No permission", "EACCES", "EPERM", "not supported")


def perf() -> str:
    """Return the path of `perf`.

    Raises:
        ToolError: this is not Linux, or `perf` is not installed.
    """
    if not sys.platform.startswith("linux"):
        raise ToolError("samples of instructions are taken by perf, which only Linux has", {"system": sys.platform})
    if (found := shutil.which("perf")) is None:
        raise ToolError(
            "perf is not installed", {}, "On Debian: apt-get install linux-perf; on Ubuntu: linux-tools-generic."
        )
    return found


def objdump() -> str | None:
    """Return the path of `objdump`, which `perf annotate` needs. None if it is not installed."""
    return shutil.which("objdump")


def refused(stderr: str) -> ToolError | None:
    """Return an error if `perf record` failed because sampling is not permitted. Otherwise return None.

    `stderr` is the output of `perf record`."""
    if not any(word in stderr for word in _DENIED):
        return None
    try:
        level = _LEVEL.read_text().strip()
    except OSError:
        level = "unknown"
    lines = [line for line in stderr.splitlines() if line.strip()]
    facts = {"kernel.perf_event_paranoid": level, "perf": lines[0].strip() if lines else ""}
    hint = "Allow it: sudo sysctl kernel.perf_event_paranoid=2; in a container, also --cap-add PERFMON."
    if level in _ENOUGH:
        hint = "This setting allows it. In a container, samples also need --cap-add PERFMON."
    return ToolError("perf may not take samples here", facts, hint)
