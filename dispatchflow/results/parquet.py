"""Define the columns of cases' rows, and write and read rows as Parquet.

A part is a Parquet file with rows that one run added. Columns are added to a schema, but never removed or renamed."""

from __future__ import annotations

import datetime
import logging
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dispatchflow.operations import DIMS, OPERATIONS, OPTIONS, refuse_taken

if TYPE_CHECKING:
    import pyarrow as pa


_log = logging.getLogger(__name__)

SCHEMA_VERSION = 1
_PART = re.compile(r"\d{8}T\d{6}Z-\w+(-\d+)?\.parquet")
"""A pattern for the names of parts, which are the Parquet files with rows that one run added.

A run's first part has the name of the run. In the names of further parts, a number follows the run's name."""
_END = b"PAR1"

# Column's name → Arrow type. Units are in the names. A null means that the value is unknown or was not determined.
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


@dataclass(frozen=True, slots=True)
class Table:
    """A table of rows, such as the rows of cases. Each table has its own folder of Parquet files."""

    folder: str
    """The folder of the Parquet files in the store."""
    prefix: str
    """A prefix for the names of this table's Parquet files in the store's records.

    The prefix distinguishes the files of different tables."""
    mark: str
    """The metadata key under which each Parquet file stores the version of the schema."""
    columns: Mapping[str, str]
    """A mapping from a column's name to its Arrow type."""


CASES = Table("results", "", "dispatchflow.schema_version", COLUMNS)


def arrow_schema(of: Table = CASES) -> pa.Schema:
    import pyarrow as pa

    types = {
        "int32": pa.int32(), "int64": pa.int64(), "double": pa.float64(), "string": pa.string(),
        "list<int64>": pa.list_(pa.int64()), "list<double>": pa.list_(pa.float64()),
        "list<string>": pa.list_(pa.string()),
        "timestamp": pa.timestamp("us", tz="UTC"),
    }  # fmt: skip
    metadata = {of.mark: str(SCHEMA_VERSION)}
    return pa.schema([(name, types[kind]) for name, kind in of.columns.items()], metadata=metadata)


_TAKES: dict[str, type | tuple[type, ...]] = {"string": str, "double": (int, float), "timestamp": (int, float)}


def mistyped_columns(row: Mapping[str, Any], of: Table = CASES) -> list[str]:
    """Return the names of the columns in which the row's cell has the wrong type.

    No value is converted: a float has the wrong type for a column of integers."""
    return [
        name for name, kind in of.columns.items() if (value := row.get(name)) is not None and not _fits(value, kind)
    ]


def _fits(value: Any, kind: str) -> bool:
    if kind.startswith("list<"):
        element = kind.removeprefix("list<").removesuffix(">")
        return isinstance(value, list | tuple) and all(item is None or _fits(item, element) for item in value)
    if kind in _TAKES:
        return isinstance(value, _TAKES[kind])
    limit = 2 ** (int(kind.removeprefix("int")) - 1)
    return type(value) is int and -limit <= value < limit  # bool and numpy integers do not fit


def drop_mistyped_cells(
    rows: Iterable[Mapping[str, Any]], of: Table = CASES
) -> tuple[list[Mapping[str, Any]], list[str]]:
    """Replace each cell of the wrong type by None; return the rows, and the names of the affected columns."""
    # An earlier version may have recorded such a cell, or the operation's file may now declare another type.
    unfit = [(row, mistyped_columns(row, of)) for row in rows]
    columns = sorted({name for _, names in unfit for name in names})
    return [{**row, **dict.fromkeys(names)} for row, names in unfit], columns


def in_arrow(rows: Iterable[Mapping[str, Any]], of: Table = CASES) -> pa.Table:
    import pyarrow as pa

    def cell(name: str, value: Any) -> Any:
        if value is not None and of.columns[name] == "timestamp":
            return datetime.datetime.fromtimestamp(value, datetime.UTC)
        return value

    found = [{name: cell(name, row.get(name)) for name in of.columns} for row in rows]
    return pa.Table.from_pylist(found, schema=arrow_schema(of))


def write_part(path: Path, rows: Iterable[Mapping[str, Any]], of: Table = CASES) -> None:
    """Write rows to a Parquet file and sync the file to disk."""
    # Each page has a checksum: without checksums, one in four flipped bits changes a number unnoticed.
    import pyarrow as pa
    import pyarrow.parquet as pq

    # The part is written to memory first: pyarrow accepts only UTF-8 paths, and if it wrote to a Python stream, its
    # threads would call this stream even at exit.
    sink = pa.BufferOutputStream()
    pq.write_table(in_arrow(rows, of), sink, compression="zstd", write_page_checksum=True)
    with path.open("wb") as stream:
        stream.write(sink.getvalue())
        stream.flush()
        os.fsync(stream.fileno())


def is_complete(part: Path) -> bool:
    """Return whether a Parquet file exists and is not truncated: it ends in Parquet's magic bytes."""
    try:
        with part.open("rb") as stream:
            stream.seek(-len(_END), os.SEEK_END)
            return stream.read() == _END
    except OSError:
        return False


def table(part: Path, *of: Table) -> pa.Table | None:
    """Return the rows of a Parquet file. If dispatchflow did not write the file, warn and return None.

    `of` has the tables to which the file may belong, by default `CASES`.

    Raises:
        ValueError: the file has a name of the form that dispatchflow uses, but cannot be read.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    ours, marks = _PART.fullmatch(part.name), {one.mark.encode() for one in of or (CASES,)}
    try:
        content = pa.BufferReader(part.read_bytes())  # pyarrow accepts only UTF-8 paths
        file = pq.ParquetFile(content, page_checksum_verification=True)
        if ours or not marks.isdisjoint(file.schema_arrow.metadata or {}):
            found = file.read()
            found.validate(full=True)  # finds text that is not UTF-8
            return found
    except (OSError, ValueError, pa.ArrowException) as error:
        if ours:
            raise ValueError(f"{part.name}: {' '.join(str(error).split())}") from error
    _log.warning("%s is not a part of these results: ignored", part)
    return None


def difference(found: pa.Table, rows: Iterable[Mapping[str, Any]], of: Table = CASES) -> str | None:
    """Describe the first difference between a Parquet file's rows (`found`) and the recorded `rows`.

    Returns None if there is no difference. A column may be missing from the file if it is empty in all `rows`."""
    wanted, names = in_arrow(drop_mistyped_cells(rows, of)[0], of).to_pylist(), set(found.column_names)
    if unknown := sorted(names - set(of.columns)):
        return f"it has an unknown column {unknown[0]!r}"
    if len(names) < len(found.column_names):  # a flipped bit can turn `b` into a second `c`
        twice = next(name for name in found.column_names if found.column_names.count(name) > 1)
        return f"it has two columns {twice!r}"
    if found.num_rows != len(wanted):
        return f"it has {found.num_rows} rows; the records have {len(wanted)}"
    for number, (row, want) in enumerate(zip(found.to_pylist(), wanted, strict=True), 1):
        for name in of.columns:
            # An older file may not have a column that was added to the schema later.
            if row.get(name) != want.get(name):
                return f"row {number} differs from the records in {name}"
    return None


def read(folder: Path, of: Table = CASES) -> list[dict[str, Any]]:
    """Return the rows of all Parquet files that dispatchflow wrote in a folder, the oldest row first.

    If a column is missing from a file, the rows of this file have None in the column.

    Raises:
        ValueError: a file cannot be read, although its name has the form that dispatchflow uses.
    """
    tables = [found for part in sorted(folder.glob("*.parquet")) if (found := table(part, of)) is not None]
    if not tables:
        return []
    import pyarrow as pa

    rows: list[dict[str, Any]] = pa.concat_tables(tables, promote_options="default").to_pylist()
    # Sorted by number, because the clock may have been set back; older parts have no numbers.
    return sorted(rows, key=lambda row: (row.get("number") or 0, row["recorded_at"]))
