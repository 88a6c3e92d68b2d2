"""Format the zones of a Tracy trace as rows and as a table.

A zone is a piece of code whose time Tracy measures, such as a dispatch or a function of the runtime."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from dispatchflow import units
from dispatchflow.iree.tracy_file import Trace
from dispatchflow.models import rollup
from dispatchflow.models.site import Program
from dispatchflow.reports.table import Row, aligned

COLUMNS = ("zone", "count", "total_ns", "median_ns", "file", "line", "sites", "operations")
"""The columns of the rows that the function `rows` returns."""

_DISPATCH = re.compile(r"_dispatch_\d+")
"""A pattern that is found in the names that the compiler gives to kernels."""


def rows(trace: Trace, program: Program | None, places: Mapping[str, tuple[str, int]]) -> list[dict[str, Any]]:
    """Return one row for each zone of a trace, the dispatches first.

    `program` is None if the sites are unknown. `places` is a dict from a kernel's name to a source file and line, which
    replace the file and line in the trace."""
    # The trace names IREE's code, or a file that the compile did not keep.
    sites = dict[str, list[str]]()
    operations = dict[str, dict[str, None]]()
    named = {each.number: rollup.operation_name(each) for each in program.operations} if program else {}
    for site in program.sites if program else ():
        sites.setdefault(site.export, []).append(str(site.number))
        operations.setdefault(site.export, {}).update({named[each.operation]: None for each in site.origins})
    found = [
        {
            "zone": zone.name,
            "count": zone.count,
            "total_ns": zone.total_ns,
            "median_ns": zone.median_ns,
            "file": file,
            "line": line,
            "sites": sites.get(zone.name),
            "operations": list(operations.get(zone.name, ())) or None,
        }
        for zone in trace.zones
        for file, line in [places.get(zone.name, (zone.file, zone.line))]
    ]
    return sorted(found, key=lambda row: row["sites"] is None and not _DISPATCH.search(row["zone"]))


def table(found: Sequence[Row]) -> str:
    """Return a table with one line for each row. `found` is a result of the function `rows`."""
    lines = [["zone", "count", "total", "median", "sites", "operations", "source"]]
    lines += [
        [
            row["zone"],
            f"{row['count']:,}",
            units.nanoseconds(row["total_ns"]),
            units.nanoseconds(row["median_ns"]),
            ",".join(row["sites"] or ()),
            ", ".join(row["operations"] or ()),
            "" if row["file"] is None else f"{row['file']}:{row['line']}",
        ]
        for row in found
    ]
    right = [False, True, True, True, False, False, False]
    kept = [i for i, _ in enumerate(right) if any(line[i] for line in lines[1:])] or [0]
    return aligned([[line[i] for i in kept] for line in lines], [right[i] for i in kept])
