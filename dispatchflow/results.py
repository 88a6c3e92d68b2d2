"""The row schema, rows from chains, and Parquet in and out.

The schema grows by columns, never by renaming. Documented in docs/results.md.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dispatchflow.keys import digest_of
from dispatchflow.operations import DIMS, OPTIONS, Operation
from dispatchflow.program import Program
from dispatchflow.statistics import summary

if TYPE_CHECKING:
    import pyarrow as pa

    from dispatchflow.chain import Chain
    from dispatchflow.recorded import Measurement
    from dispatchflow.toolchain import Toolchain

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
    "tuning": "string",
    "target": "string",
    "device": "string",
    "threads": "int32",
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
    "flops": "int64",
    "traffic_bytes": "int64",
    "flops_per_s": "double",
    "bytes_per_s": "double",
    "ceiling_flops_per_s": "double",
    "ceiling_bytes_per_s": "double",
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


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What rows say beside their chain: this machine, this invocation."""

    toolchain: Toolchain
    host: str
    cpu: str
    protocol: str
    run: str


def row_of(
    chain: Chain,
    tags: Sequence[str],
    ceilings: tuple[float | None, float | None],
    margin: float,
    around: Surroundings,
    now: float,
) -> dict[str, Any]:
    """One case's line. Rates are of the median and the operation's own flops and compulsory traffic."""
    case, operation = chain.case, chain.case.operation
    compiled, verified, profiled = chain["compile"], chain["verify"], chain["profile"]
    facts = compiled.record.facts if compiled.record else {}
    verdict = verified.record.facts if verified.record else {}
    row: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "case": case.name,
        "operation": operation.name,
        **dict(zip(operation.dims, operation.sizes, strict=True)),
        **(dict(zip(operation.options, operation.chosen, strict=True)) if isinstance(operation, Operation) else {}),
        "shape": case.shape_name,
        "element_types": operation.element_types,
        "layout": operation.layout,
        "tuning": case.tuning.name,
        "target": case.target.name,
        "device": chain.device.uri,
        "threads": chain.device.threads,
        "toolchain_version": around.toolchain.version,
        "toolchain_revision": around.toolchain.revision,
        "runtime_version": around.toolchain.runtime_version,
        "code_digest": facts.get("code_digest"),
        "compile_key": compiled.key,
        "verify_key": verified.key,
        "measurement_key": profiled.key,
        "verification": verdict.get("verification", "not verified" if verified.state == "off" else "not compared"),
        **{name: verdict.get(name) for name in ("score", "worst_index", "worst_got", "worst_expected")},
        "requested_configuration": case.dispatch.requested,
        "applied_configuration": facts.get("applied"),
        "flops": operation.flops(),
        "traffic_bytes": operation.traffic_bytes(),
        **{name: facts.get(name) for name in ("compile_s", "compiler_peak_bytes", "code_bytes")},
        "protocol": around.protocol,
        "host": around.host,
        "cpu": around.cpu,
        "tags": list(tags),
        "run_id": around.run,
        "recorded_at": now,
    }
    row |= _times(chain, row, ceilings)
    row["status"] = status = standing(chain, credible_ns(operation, ceilings, margin))
    match status:
        case "failed" | "not measured" | "no device":
            row["reason"] = (chain.failure or profiled).why
        case "suspect":
            known = [name for name in ("flops_per_s", "bytes_per_s") if row[f"ceiling_{name}"] is not None]
            name = max(known, key=lambda name: row[name] / row[f"ceiling_{name}"])
            ceiling = row[f"ceiling_{name}"]
            row["reason"] = f"{row[name]:.3g} {name} is above this machine's ceiling, {ceiling:.3g}"
        case "noisy" if row["ci_low_ns"] is not None:
            half, blocks = summary(row["blocks_ns"]).half_width, len(row["blocks_ns"])
            row["reason"] = f"the median's interval is ±{half:.1%} after {blocks} blocks"
    if row.get("reason") is None and verified.state == "off" and row["verification"] == "different":
        row["reason"] = verified.why
    return row


def standing(chain: Chain, credible_ns: float) -> str:
    """The row's status. A median below `credible_ns` is suspect."""
    if chain.failure is not None:
        return "failed"
    if chain["profile"].state == "absent":
        return "no device"
    found = _measured(chain)
    if found is None or found.median_ns is None:
        return "not measured"
    return "suspect" if found.median_ns < credible_ns else found.status


def credible_ns(program: Program, ceilings: tuple[float | None, float | None], margin: float) -> float:
    """The shortest call that these ceilings (flops and bytes per s, each times `margin`) allow; 0 when unknown."""
    work = zip((program.flops(), program.traffic_bytes()), ceilings, strict=True)
    return max((w / (c * margin) * 1e9 for w, c in work if w is not None and c is not None), default=0.0)


def _measured(chain: Chain) -> Measurement | None:
    step = chain["profile"]
    return step.measurement if step.state == "made" else None


_KNOWN: dict[str, Callable[[Chain], Any]] = {
    "case": lambda chain: chain.case.name,
    "operation": lambda chain: chain.case.operation.name,
    "shape": lambda chain: chain.case.operation.shape_name,
    "target": lambda chain: chain.case.target.name,
    "threads": lambda chain: chain.device.threads,
    "median_ns": lambda chain: found.median_ns if (found := _measured(chain)) else None,
}


class Row(Mapping[str, Any]):
    """One case's line. What is asked of every case is known at once, the rest is found when one is shown or new."""

    __slots__ = ("_cells", "_make", "chain", "status")

    def __init__(self, chain: Chain, status: str, make: Callable[[Chain], dict[str, Any]]) -> None:
        self.chain, self.status, self._make = chain, status, make
        self._cells: dict[str, Any] | None = None

    @property
    def cells(self) -> dict[str, Any]:
        if self._cells is None:
            self._cells = self._make(self.chain)
        return self._cells

    def __getitem__(self, name: str) -> Any:
        if name == "status":
            return self.status
        if self._cells is None and (known := _KNOWN.get(name)) is not None:
            return known(self.chain)
        return self.cells[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.cells)

    def __len__(self) -> int:
        return len(self.cells)


def _times(chain: Chain, row: Mapping[str, Any], ceilings: tuple[float | None, float | None]) -> dict[str, Any]:
    found = _measured(chain)
    if found is None or found.median_ns is None:
        return {}
    times, conditions = summary(found.blocks_ns), found.conditions
    rates = {
        f"{unit}_per_s": None if row[amount] is None else row[amount] / times.median_ns * 1e9
        for unit, amount in (("flops", "flops"), ("bytes", "traffic_bytes"))
    }
    return {
        "reason": None,
        "median_ns": times.median_ns,
        "min_ns": times.min_ns,
        "ci_low_ns": times.ci_low_ns,
        "ci_high_ns": times.ci_high_ns,
        "blocks_ns": list(found.blocks_ns),
        "dispatch_ns": summary(found.dispatch_ns).median_ns if found.dispatch_ns else None,
        "dispatch_blocks_ns": list(found.dispatch_ns) or None,
        **rates,
        "ceiling_flops_per_s": ceilings[0],
        "ceiling_bytes_per_s": ceilings[1],
        "measured_at": found.at,
        "runtime_version": conditions.get("runtime", row["runtime_version"]),
        "measured_with": conditions.get("toolchain"),
        **{
            name: conditions.get(name)
            for name in ("cpus", "load_1m", "steal_ticks", "governor", "mhz", "cgroup_cpu_max")
        },
    }


def identity(chain: Chain, status: str) -> str:
    """Equal identities say the same result: such a row is written once. `status`: a judgement may be corrected."""
    measured = chain["profile"].measurement
    words = [chain.case.name, status, str(measured.id) if measured else "-"]
    for step in chain.steps.values():
        words += (step.key or "-", step.state)
    return digest_of(" ".join(words).encode("utf-8", "surrogatepass"))  # none of these words has white space


# --- Parquet


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
    import pyarrow.parquet as pq

    try:
        pq.ParquetFile(part).read()
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
