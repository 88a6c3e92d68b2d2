"""Define the columns of sites' rows, and build one row for each site of a case."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dispatchflow.engine.state import CaseState
from dispatchflow.keys import digest_of
from dispatchflow.results.parquet import Table


class Column(NamedTuple):
    """A column of the rows of sites; docs/models.md lists all columns."""

    type: str
    """The Arrow type."""
    unit: str
    """The unit; empty for text."""
    meaning: str


OF_SITE = {
    "case": Column("string", "", "the case's name"),
    "site": Column("string", "", "the site's number in program order; `3|7` for sites that cannot be told apart"),
    "function": Column("string", "", "the function, or the initializer, that launches it"),
    "kernel": Column("string", "", "the dispatch as profilers name it"),
    "operations": Column("list<string>", "", "its source operations"),
    "evidence": Column(
        "string",
        "",
        "how `operations` were found: `location`, `data flow` or `launch`; several if `site` has several numbers",
    ),
    "executions": Column("double", "1", "executions in one call"),
    "median_ns": Column("double", "ns", "the time of all executions in one call"),
    "ci_low_ns": Column("double", "ns", "lower end of its 95 % interval within this session"),
    "ci_high_ns": Column("double", "ns", "upper end of this interval"),
    "own_ns": Column(
        "int64",
        "ns",
        "the site's part of the median call; while n dispatches run at once, each counts for 1/n of the time",
    ),
    "share": Column("double", "1", "`own_ns` as a fraction of the call's time"),
    "workgroups": Column("list<int64>", "1", "workgroups in x, y, z"),
    "workers": Column("double", "1", "the mean number of workers that ran it at once"),
    "flops": Column("int64", "1", "flops of one execution; empty if a size is dynamic"),
    "traffic_bytes": Column("int64", "B", "bytes of operands and results of one execution; empty if a size is dynamic"),
    "flops_per_s": Column("double", "1/s", "rate of one execution"),
    "bytes_per_s": Column("double", "B/s", "rate of one execution"),
    "bound": Column(
        "string",
        "",
        "what limits one execution: `compute` or `memory`; empty if a highest rate for its element types is unknown",
    ),
    "percent_of_peak": Column(
        "double",
        "%",
        "rate of one execution as a share of the machine's highest rate (of compute or memory, as `bound` says)",
    ),
    "alone_ns": Column(
        "double",
        "ns",
        "time of one execution of the site by itself: `dispatch_ns` in the newest row of the extracted module",
    ),
    "configuration": Column("string", "", "what the compiler applied to its executable"),
    "untimed": Column("string", "", "why it has no time: `at load`, or `not launched` in the profiled calls"),
}
"""The columns about a site: a dict from a column's name to its type, unit and meaning."""

_OF_CASE = {
    "code_digest": Column("string", "", "as in the case's row"),
    "measurement_key": Column("string", "", "as in the case's row"),
    "toolchain_version": Column("string", "", "the compiler's own version"),
    "target": Column("string", "", "the target's name"),
    "device": Column("string", "", "the runtime's URI"),
    "threads": Column("int32", "1", "number of threads"),
    "protocol": Column("string", "", "as in the case's row"),
    "run_id": Column("string", "", "the run that wrote this row"),
    "recorded_at": Column("timestamp", "", "when the row was made"),
    "number": Column(
        "int64", "1", "the row's number; all rows of a store (of cases and of sites) are numbered in one sequence"
    ),
}
"""The columns about the site's case and run."""

COLUMNS = {**OF_SITE, **_OF_CASE}
"""All columns of a site's row, in order."""

SITE_ROWS = Table(
    "sites", "sites/", "dispatchflow.sites.schema_version", {name: column.type for name, column in COLUMNS.items()}
)
"""The table of sites' rows."""

_LATER = frozenset({"alone_ns", "bound", "percent_of_peak", "run_id", "recorded_at"})
"""The columns that are ignored when a row is compared with the newest row of its site."""


@dataclass(frozen=True, slots=True)
class SiteRow:
    """A site's row, as it is recorded in the store's database."""

    cells: Mapping[str, Any]

    @property
    def identity(self) -> str:
        """A digest of the row's cells, except the cells in the columns `_LATER`.

        A row is written only if its digest differs from the digest of the site's newest row."""
        found = {name: value for name, value in self.cells.items() if name not in _LATER}
        return digest_of(json.dumps(["site", found], sort_keys=True).encode())


def recorded(
    chain: CaseState,
    rows: Sequence[Mapping[str, Any]],
    name: str,
    version: str,
    protocol: str,
    run: str,
    now: float,
) -> dict[str, SiteRow]:
    """Return the rows of a case's sites, keyed by name.

    The row of site 3 has the name `site 3 NAME`, where NAME is the argument `name`. Sites that cannot be distinguished
    share a row, with a name such as `site 3|7 NAME`.

    Args:
        rows: the rows that `reports.sites.rows` returned for the case.
        name: the name of the case's own row, from `publish.name_of`.
        version: the toolchain's version.
        protocol: the measurement protocol's id.
        now: the present time, in seconds since 1970.
    """
    around = {
        "code_digest": chain["compile"].code,
        "measurement_key": chain["profile"].key,
        "toolchain_version": version,
        "target": chain.case.target.name,
        "device": chain.device.uri,
        "threads": chain.device.threads,
        "protocol": protocol,
        "run_id": run,
        "recorded_at": now,
    }
    return {f"site {row['site']} {name}": SiteRow({**row, **around}) for row in rows}
