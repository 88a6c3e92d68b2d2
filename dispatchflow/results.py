"""The row schema, and Parquet in and out.

The schema grows by columns, never by renaming. Documented in docs/results.md.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dispatchflow.operations import DIMS, OPTIONS

if TYPE_CHECKING:
    import pyarrow as pa


SCHEMA_VERSION = 1

# name → Arrow type. Units are in the names; a null is "not known" or "not done", never zero.
COLUMNS: dict[str, str] = {
    "schema_version": "int32",
    "case": "string",
    "operation": "string",
    **dict.fromkeys(DIMS, "int64"),
    **{word: "int64" if isinstance(option.values, range) else "string" for word, option in OPTIONS.items()},
    "shape": "string",
    "element_types": "string",
    "layout": "string",
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
    "verification": "string",
    "score": "double",
    "worst_index": "list<int64>",
    "worst_got": "string",
    "worst_expected": "string",
    "requested_configuration": "string",
    "applied_configuration": "string",
    "median_ns": "double",
    "ci_low_ns": "double",
    "ci_high_ns": "double",
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
    "cpu": "string",
    "cpus": "list<int64>",
    "load_1m": "double",
    "steal_ticks": "int64",
    "governor": "string",
    "mhz": "double",
    "cgroup_cpu_max": "string",
    "tags": "list<string>",
    "run_id": "string",
    "measured_at": "timestamp",
    "recorded_at": "timestamp",
    "number": "int64",
}

VERIFICATIONS = ("equal", "within bound", "different", "mistrusted", "not compared", "not verified")
PASSED = ("equal", "within bound")
STATUSES = ("measured", "noisy", "suspect", "failed", "not measured", "no device")


def arrow_schema() -> pa.Schema:
    import pyarrow as pa

    types = {
        "int32": pa.int32(), "int64": pa.int64(), "double": pa.float64(), "string": pa.string(),
        "list<int64>": pa.list_(pa.int64()), "list<double>": pa.list_(pa.float64()),
        "list<string>": pa.list_(pa.string()),
        "timestamp": pa.timestamp("us", tz="UTC"),
    }  # fmt: skip
    metadata = {"dispatchflow.schema_version": str(SCHEMA_VERSION)}
    return pa.schema([(name, types[kind]) for name, kind in COLUMNS.items()], metadata=metadata)


def write_part(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """One immutable part, synced."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def cell(name: str, value: Any) -> Any:
        if value is not None and COLUMNS[name] == "timestamp":
            return datetime.datetime.fromtimestamp(value, datetime.UTC)
        return value

    table = pa.Table.from_pylist([{n: cell(n, row.get(n)) for n in COLUMNS} for row in rows], schema=arrow_schema())
    # Through memory: by path pyarrow takes UTF-8 only; with a Python stream its threads call Python, even at exit.
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    with path.open("wb") as stream:
        stream.write(sink.getvalue())
        stream.flush()
        os.fsync(stream.fileno())


def problem(part: Path) -> str | None:
    """Why this part cannot be read, None when it can."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        pq.ParquetFile(pa.BufferReader(part.read_bytes())).read()  # by path pyarrow takes UTF-8 only
    except (OSError, ValueError) as error:  # pyarrow's errors are ValueErrors
        return " ".join(str(error).split())
    return None


def read(folder: Path) -> list[dict[str, Any]]:
    """All rows of all parts, oldest first; columns that a part lacks are None. No store is needed.

    Raises:
        OSError, pyarrow.ArrowInvalid: a part cannot be read.
    """
    parts = sorted(folder.glob("*.parquet"))
    if not parts:
        return []
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.concat_tables(
        [pq.ParquetFile(pa.BufferReader(part.read_bytes())).read() for part in parts], promote_options="default"
    )
    rows: list[dict[str, Any]] = table.to_pylist()
    # Not by the clock, which may have been set back; parts of before have no numbers.
    return sorted(rows, key=lambda row: (row.get("number") or 0, row["recorded_at"]))
