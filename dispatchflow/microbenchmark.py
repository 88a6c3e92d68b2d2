"""Call functions of compiled modules: compare their results, and measure their dispatches.

    import numpy
    from dispatchflow.microbenchmark import Input, Invocation, run

    a = numpy.ones((64, 64), "float32")
    table = run([Invocation("mm", "mm.vmfb", "main", [a, Input(a, cold=True)], expected=[a @ a])])
    print(table.select(["invocation", "dispatch", "median_ns", "verdict"]).to_pylist())

No project, spec or store is needed. Each invocation runs in separate processes. If a process crashes or takes too
long, its invocation has failed, and the next invocation runs. docs/python.md describes the columns of the table.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dispatchflow.errors import SpecError, suggestion
from dispatchflow.measurement.executors import Executors
from dispatchflow.measurement.invocations import Input, Invocation
from dispatchflow.timing.protocols import PROTOCOLS

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Input", "Invocation", "run"]

_DEVICES = ("local-sync", "local-task", "vulkan", "cuda", "hip", "amdgpu", "metal")


def run(
    invocations: Sequence[Invocation],
    device: str = "local-sync",
    check_only: bool = False,
    trace: str | os.PathLike[str] | None = None,
    *,
    protocol: str = "fast",
    limit_s: float = 120.0,
) -> pa.Table:
    """Verify and measure each invocation, one after another.

    Args:
        device: the runtime's URI of the device; the modules must be compiled for this device.
        check_only: whether to verify only, and measure nothing.
        trace: a directory for the runtime's profiles. If the invocation `mm` is measured, its profile is `mm.ireeprof`.
        protocol: how long and how often to measure: `fast`, `std` or `thorough` (docs/measurement.md).
        limit_s: the time limit of each process, in seconds.

    Returns:
        One row for each dispatch that an invocation launches; docs/python.md describes the columns. An invocation that
        was not measured or launches no dispatch has one row without a dispatch.

    Raises:
        SpecError: an argument is wrong, or an invocation does not fit its module. It is raised before any call.
        ToolchainError: this Python environment has no IREE."""
    known = device.partition("://")[0]
    if known not in _DEVICES:
        facts = {"given": device, "known": ", ".join(_DEVICES)}
        raise SpecError("unknown device", facts, suggestion(known, _DEVICES))
    if protocol not in PROTOCOLS:
        facts = {"given": protocol, "known": ", ".join(PROTOCOLS)}
        raise SpecError("unknown protocol", facts, suggestion(protocol, PROTOCOLS))
    names = [each.name for each in invocations]
    for name in names:
        if names.count(name) > 1:
            raise SpecError("two invocations have one name", {"name": name}, "Name each one differently.")
        if trace is not None and not re.fullmatch(r"[\w.+-]+", name):
            raise SpecError("with trace, a name is a file's", {"name": name}, "Use letters, digits, and . + - _.")
    executors = Executors(device, PROTOCOLS[protocol], limit_s, None if trace is None else Path(trace))
    calls = [executors.checked(each) for each in invocations]
    return _table([row for call in calls for row in executors.rows(call, check_only)])


def _table(rows: Sequence[dict[str, object]]) -> pa.Table:
    import pyarrow as pa

    schema = pa.schema(
        [
            ("invocation", pa.string()),
            ("function", pa.string()),
            ("device", pa.string()),
            ("dispatch", pa.string()),
            ("executions", pa.int64()),
            ("total_ns", pa.int64()),
            ("median_ns", pa.float64()),
            ("p5_ns", pa.float64()),
            ("dispatch_ns", pa.float64()),
            ("workgroups", pa.list_(pa.int64())),
            ("calls", pa.int64()),
            ("call_ns", pa.float64()),
            ("verdict", pa.string()),
            ("status", pa.string()),
            ("reason", pa.string()),
        ]
    )
    return pa.Table.from_pylist(rows, schema=schema)
