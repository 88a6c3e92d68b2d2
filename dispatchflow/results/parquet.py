"""The row schema, and Parquet in and out.

The schema grows by columns, never by renaming. Documented in docs/results.md.
"""

from __future__ import annotations

import datetime
import logging
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dispatchflow.operations import DIMS, OPERATIONS, OPTIONS, refuse_taken

if TYPE_CHECKING:
    import pyarrow as pa


_log = logging.getLogger(__name__)

SCHEMA_VERSION = 1
_MARK = "dispatchflow.schema_version"
_PART = re.compile(r"\d{8}T\d{6}Z-\w+(-\d+)?\.parquet")
"""Named after its run; with a number behind it when the run published before."""
_END = b"PAR1"

# name → Arrow type. Units are in the names; a null is "not known" or "not done", never zero.
_FIRST = {"schema_version": "int32", "case": "string", "operation": "string"}
_OF_OPERATIONS = {
    **dict.fromkeys(DIMS, "int64"),
    **{word: "int64" if isinstance(option.values, range) else "string" for word, option in OPTIONS.items()},
}
_OF_ALL = {
    "shape": "string",
    "element_types": "string",
    "layout": "string",
    "file": "string",
    "program_digest": "string",
    "data_digest": "string",
    "provider": "string",
    "tuning": "string",
    "flags": "string",
    "target": "string",
    "device": "string",
    "threads": "int32",
    "cache": "string",
    "toolchain_version": "string",
    "toolchain_revision": "string",
    "runtime_version": "string",
    "measured_with": "string",
    "code_digest": "string",
    "compile_key": "string",
    "verify_key": "string",
    "measurement_key": "string",
    "status": "string",
    "reason": "string",
    "known_failure": "string",
    "verification": "string",
    "verified_with": "string",
    "verification_version": "int32",
    "score": "double",
    "worst_index": "list<int64>",
    "worst_got": "string",
    "worst_expected": "string",
    "requested_configuration": "string",
    "applied_configuration": "string",
    "median_ns": "double",
    "ci_low_ns": "double",
    "ci_high_ns": "double",
    "within_session": "double",
    "between_sessions": "double",
    "later_low_ns": "double",
    "later_high_ns": "double",
    "session_factor": "double",
    "session_factor_uncertainty": "double",
    "sensitivity": "double",
    "sensitivity_uncertainty": "double",
    "anchored_median_ns": "double",
    "anchored_low_ns": "double",
    "anchored_high_ns": "double",
    "anchors_ns": "list<double>",
    "anchors_reference_ns": "list<double>",
    "min_ns": "double",
    "blocks_ns": "list<double>",
    "dispatch_ns": "double",
    "dispatch_blocks_ns": "list<double>",
    "dispatches": "list<string>",
    "dispatch_configurations": "list<string>",
    "dispatch_medians_ns": "list<double>",
    "flops": "int64",
    "traffic_bytes": "int64",
    "flops_per_s": "double",
    "bytes_per_s": "double",
    "ceiling_flops_per_s": "double",
    "ceiling_bytes_per_s": "double",
    "bound": "string",
    "percent_of_peak": "double",
    "compile_s": "double",
    "compiler_peak_bytes": "int64",
    "code_bytes": "int64",
    "protocol": "string",
    "host": "string",
    "machine": "string",
    "kernel": "string",
    "cores": "int32",
    "hypervisor": "string",
    "cpu": "string",
    "cpus": "list<int64>",
    "load_1m": "double",
    "steal_ticks": "int64",
    "disturbed_blocks": "int32",
    "governor": "string",
    "mhz": "double",
    "cgroup_cpu_max": "string",
    "tags": "list<string>",
    "run_id": "string",
    "rounds": "string",
    "measured_at": "timestamp",
    "recorded_at": "timestamp",
    "number": "int64",
}
COLUMNS: dict[str, str] = {**_FIRST, **_OF_OPERATIONS, **_OF_ALL}
refuse_taken(OPERATIONS.values(), {*_FIRST, *_OF_ALL}, "a column of every row")

STATUSES = ("measured", "noisy", "suspect", "failed", "known failure", "not measured", "no device")


def arrow_schema() -> pa.Schema:
    import pyarrow as pa

    types = {
        "int32": pa.int32(), "int64": pa.int64(), "double": pa.float64(), "string": pa.string(),
        "list<int64>": pa.list_(pa.int64()), "list<double>": pa.list_(pa.float64()),
        "list<string>": pa.list_(pa.string()),
        "timestamp": pa.timestamp("us", tz="UTC"),
    }  # fmt: skip
    metadata = {_MARK: str(SCHEMA_VERSION)}
    return pa.schema([(name, types[kind]) for name, kind in COLUMNS.items()], metadata=metadata)


_TAKES: dict[str, type | tuple[type, ...]] = {"string": str, "double": (int, float), "timestamp": (int, float)}


def mistyped_columns(row: Mapping[str, Any]) -> list[str]:
    """The columns whose cells are not of their types. Nothing is converted: a float is no whole number."""
    return [name for name in COLUMNS if not fits(name, row.get(name))]


def fits(column: str, value: Any) -> bool:
    return value is None or _fits(value, COLUMNS[column])


def _fits(value: Any, kind: str) -> bool:
    if kind.startswith("list<"):
        element = kind.removeprefix("list<").removesuffix(">")
        return isinstance(value, list | tuple) and all(item is None or _fits(item, element) for item in value)
    if kind in _TAKES:
        return isinstance(value, _TAKES[kind])
    limit = 2 ** (int(kind.removeprefix("int")) - 1)
    return type(value) is int and -limit <= value < limit  # no bool, nor an integer of numpy's


def drop_mistyped_cells(rows: Iterable[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], list[str]]:
    """(recorded rows without the cells that do not fit their columns, those columns): what an earlier version let in,
    or an operation's file that has another type today."""
    unfit = [(row, mistyped_columns(row)) for row in rows]
    columns = sorted({name for _, names in unfit for name in names})
    return [{**row, **dict.fromkeys(names)} for row, names in unfit], columns


def in_arrow(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    import pyarrow as pa

    def cell(name: str, value: Any) -> Any:
        if value is not None and COLUMNS[name] == "timestamp":
            return datetime.datetime.fromtimestamp(value, datetime.UTC)
        return value

    return pa.Table.from_pylist([{n: cell(n, row.get(n)) for n in COLUMNS} for row in rows], schema=arrow_schema())


def write_part(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """One immutable part, synced. Each page has a checksum: without, one flipped bit of four changes a number and
    nothing reports it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    # Through memory: by path pyarrow takes UTF-8 only; with a Python stream its threads call Python, even at exit.
    sink = pa.BufferOutputStream()
    pq.write_table(in_arrow(rows), sink, compression="zstd", write_page_checksum=True)
    with path.open("wb") as stream:
        stream.write(sink.getvalue())
        stream.flush()
        os.fsync(stream.fileno())


def is_complete(part: Path) -> bool:
    """Whether it is there and ends as Parquet does, which one that was cut short does not."""
    try:
        with part.open("rb") as stream:
            stream.seek(-len(_END), os.SEEK_END)
            return stream.read() == _END
    except OSError:
        return False


def table(part: Path) -> pa.Table | None:
    """Its rows; None, and a warning, where it is nothing that dispatchflow wrote.

    Raises:
        OSError, ValueError: it cannot be read, and has the name of a part.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    ours = _PART.fullmatch(part.name)
    try:
        content = pa.BufferReader(part.read_bytes())  # by path pyarrow takes UTF-8 only
        file = pq.ParquetFile(content, page_checksum_verification=True)
        if ours or _MARK.encode() in (file.schema_arrow.metadata or {}):
            found = file.read()
            found.validate(full=True)  # text that is not UTF-8
            return found
    except (OSError, ValueError, pa.ArrowException) as error:
        if ours:
            raise ValueError(f"{part.name}: {' '.join(str(error).split())}") from error
    _log.warning("%s is no part of these results: left out", part)
    return None


def difference(found: pa.Table, rows: Iterable[Mapping[str, Any]]) -> str | None:
    """What of a part is not as these recorded rows, None when all is: `row 3 has another median_ns`. Columns that the
    part does not have are those of a later version, where the record has nothing either."""
    wanted, names = in_arrow(drop_mistyped_cells(rows)[0]).to_pylist(), set(found.column_names)
    if unknown := sorted(names - set(COLUMNS)):
        return f"it has a column {unknown[0]!r}, which dispatchflow has not"
    if len(names) < len(found.column_names):  # a flipped bit makes `b` a second `c`: rows as dicts have one
        twice = next(name for name in found.column_names if found.column_names.count(name) > 1)
        return f"it has two columns {twice!r}"
    if found.num_rows != len(wanted):
        return f"it has {found.num_rows} rows; the records have {len(wanted)}"
    for number, (row, want) in enumerate(zip(found.to_pylist(), wanted, strict=True), 1):
        for name in COLUMNS:
            if row.get(name) != want.get(name):
                return f"row {number} has another {name} than the records"
    return None


def read(folder: Path) -> list[dict[str, Any]]:
    """All rows of all parts, oldest first; columns that a part lacks are None. No store is needed.

    Raises:
        OSError, ValueError: a part cannot be read.
    """
    tables = [found for part in sorted(folder.glob("*.parquet")) if (found := table(part)) is not None]
    if not tables:
        return []
    import pyarrow as pa

    rows: list[dict[str, Any]] = pa.concat_tables(tables, promote_options="default").to_pylist()
    # Not by the clock, which may have been set back; parts of before have no numbers.
    return sorted(rows, key=lambda row: (row.get("number") or 0, row["recorded_at"]))
