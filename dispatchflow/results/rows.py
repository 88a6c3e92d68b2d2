"""Build the row of a case. The columns are listed in `parquet.COLUMNS`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp
from typing import TYPE_CHECKING, Any

from dispatchflow.cases.dispatch import program_digest
from dispatchflow.cases.module import Module
from dispatchflow.iree.flags import quoted
from dispatchflow.keys import digest_of, key_of
from dispatchflow.measurement.anchors import Moment
from dispatchflow.operations import Operation
from dispatchflow.results.parquet import SCHEMA_VERSION
from dispatchflow.results.roofline import Roofline, roofline
from dispatchflow.results.status import measured, reason_of, standing, verification_of, verification_version_of
from dispatchflow.timing.statistics import Summary, Z, summary
from dispatchflow.workload import Workload

if TYPE_CHECKING:
    from dispatchflow.engine.state import CaseState
    from dispatchflow.iree.toolchain import Toolchain


@dataclass(frozen=True, slots=True)
class RowContext:
    """The values that are the same in the rows of all cases of a run."""

    toolchain: Toolchain
    host: str
    cpu: str
    protocol: str
    run: str
    folder: str = ""
    """The folder against which relative paths of users' modules are resolved."""


_AMOUNTS = ("flops", "traffic_bytes")
_MACHINE = ("machine", "kernel", "cores", "hypervisor")
_CONDITIONS = (*_MACHINE, "cpus", "load_1m", "steal_ticks", "disturbed_blocks", "governor", "mhz", "cgroup_cpu_max")


def row_of(chain: CaseState, tags: Sequence[str], bounds: Roofline, around: RowContext, now: float) -> dict[str, Any]:
    """Return a case's row. Its rates are the flops and bytes of one call, divided by the median time."""
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
        "file": file_of(operation, around.folder),
        "program_digest": program_digest(operation),
        "data_digest": _data_digest(chain),
        "provider": case.provider,
        "tuning": case.tuning.name if case.library is None else None,
        "flags": quoted(case.flags) if case.flags else None,
        "target": case.target.name,
        "device": chain.device.uri,
        "threads": chain.device.threads,
        "cache": case.cache,
        **_versions(chain, around.toolchain),
        "code_digest": compiled.code,
        "compile_key": compiled.key,
        "verify_key": verified.key,
        "measurement_key": profiled.key,
        "verification": verification_of(chain),
        "verified_with": _verified_with(verdict, around.toolchain),
        "verification_version": verification_version_of(chain),
        "known_failure": chain.known.reason if chain.known else None,
        **{name: verdict.get(name) for name in ("score", "worst_index", "worst_got", "worst_expected")},
        "requested_configuration": chain.dispatch.requested,
        "applied_configuration": facts.get("applied"),
        **_each_dispatch(chain),
        **dict(zip(_AMOUNTS, bounds.amount_cells, strict=True)),
        **{name: facts.get(name) for name in ("compile_s", "compiler_peak_bytes", "code_bytes")},
        "protocol": around.protocol,
        "host": around.host,
        "cpu": around.cpu,
        "tags": list(tags),
        "run_id": around.run,
        "recorded_at": now,
    }
    row |= _times(chain, row, bounds)
    row["status"] = status = standing(chain, bounds)
    match status:
        case "failed" | "known failure" | "not measured" | "no device":
            row["reason"] = (chain.failure or profiled).why
        case "suspect":
            known = [name for name in ("flops_per_s", "bytes_per_s") if row[f"ceiling_{name}"] is not None]
            name = max(known, key=lambda name: row[name] / row[f"ceiling_{name}"])
            ceiling = row[f"ceiling_{name}"]
            row["reason"] = f"{row[name]:.3g} {name} is above this machine's ceiling, {ceiling:.3g}"
        case "noisy":
            half, blocks = summary(row["blocks_ns"]).half_width, len(row["blocks_ns"])
            loud = f"the median's interval is ±{half or 0:.1%} after {blocks} blocks"
            slow = f"{blocks} blocks took all of the protocol's time, too few for an interval of the median"
            row["reason"] = slow if half is None else loud
            if (found := measured(chain)) is not None and found.disturbed:
                row["reason"] = (
                    f"{row['disturbed_blocks']} of {blocks} blocks waited for a CPU: other programs run here"
                )
    row["reason"] = reason_of(chain, status, row.get("reason"))
    return row


def file_of(program: Workload, folder: str) -> str | None:
    """Return the path of a user's module, joined to `folder` if it is relative; None for an operation."""
    # The path may have bytes that are not UTF-8. They are escaped.
    if not isinstance(program, Module):
        return None
    return os.path.join(folder, program.source.path).encode(errors="backslashreplace").decode()  # noqa: PTH118 (text)


def _data_digest(chain: CaseState) -> str | None:
    if (action := chain["profile"].action) is None:
        return None
    return key_of("data", {name: action.ingredients[name] for name in ("arguments", "data")})


def _verified_with(verdict: Mapping[str, Any], toolchain: Toolchain) -> str | None:
    """Return the version of the runtime or library that a case was verified with; None if it is unknown.

    `verdict` has the recorded facts of the verification."""
    known: str | None = verdict.get("runtime")
    mine = verdict.get("runtime_digest") == toolchain.runtime_digest
    return known or (toolchain.runtime_version if mine else None)


def _versions(chain: CaseState, toolchain: Toolchain) -> dict[str, Any]:
    if chain.case.library is not None:
        return dict.fromkeys(("toolchain_version", "toolchain_revision", "runtime_version"))
    return {
        "toolchain_version": toolchain.version,
        "toolchain_revision": toolchain.revision,
        "runtime_version": toolchain.runtime_version,
    }


_KNOWN: dict[str, Callable[[CaseState], Any]] = {
    "case": lambda chain: chain.case.name,
    "operation": lambda chain: chain.case.operation.name,
    "shape": lambda chain: chain.case.operation.shape_name,
    "target": lambda chain: chain.case.target.name,
    "provider": lambda chain: chain.case.provider,
    "cache": lambda chain: chain.case.cache,
    "threads": lambda chain: chain.device.threads,
    "verification": verification_of,
    "verification_version": verification_version_of,
    "median_ns": lambda chain: found.median_ns if (found := measured(chain)) else None,
}


class Row(Mapping[str, Any]):
    """A case's row. Its cells are computed when they are first read."""

    __slots__ = ("_bounds", "_cells", "_identity", "_make", "chain", "status")

    def __init__(
        self, chain: CaseState, bounds: Roofline, make: Callable[[CaseState, Roofline], dict[str, Any]]
    ) -> None:
        self.chain, self._bounds, self._make = chain, bounds, make
        self.status = standing(chain, bounds)
        self._cells: dict[str, Any] | None = None
        self._identity: str | None = None

    @property
    def identity(self) -> str:
        """A digest of the case's state, such as its status, its measurement and the keys of its stages.

        A row is written only if its digest differs from the digest of the case's newest row."""
        if self._identity is None:
            measured = self.chain["profile"].measurement
            words = [self.chain.case.name, self.status, str(measured.id) if measured else "-"]
            for step in self.chain.steps.values():
                words += (step.key or "-", step.state)
            words += map(str, self._bounds.amount_cells)
            # Rows of older versions lack `verification_version` and count as outdated, so they are written once more.
            words.append(f"verification-{verification_version_of(self.chain)}")
            if (doubt := self.chain["profile"].doubt) is not None:
                words.append(digest_of(doubt.encode("utf-8", "surrogatepass")))
            # Spaces separate the words; only the text of an error that an operation's file raised may contain spaces.
            self._identity = digest_of(" ".join(words).encode("utf-8", "surrogatepass"))
        return self._identity

    @property
    def cells(self) -> dict[str, Any]:
        if self._cells is None:
            self._cells = self._make(self.chain, self._bounds)
        return self._cells

    def __getitem__(self, name: str) -> Any:
        if name == "status":
            return self.status
        if self._cells is None:
            if (known := _KNOWN.get(name)) is not None:
                return known(self.chain)
            if name == "reason" and self.status == "measured":  # a status without a reason
                return reason_of(self.chain, self.status, None)
        return self.cells[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.cells)

    def __len__(self) -> int:
        return len(self.cells)


def _times(chain: CaseState, row: Mapping[str, Any], bounds: Roofline) -> dict[str, Any]:
    found = measured(chain)
    if found is None or found.median_ns is None:
        return {}
    times, conditions = summary(found.blocks_ns), found.conditions
    work = bounds.amounts
    rates = {
        f"{unit}_per_s": None if amount is None else amount / times.median_ns * 1e9
        for unit, amount in zip(("flops", "bytes"), work, strict=True)
    }
    return {
        "reason": None,
        "median_ns": times.median_ns,
        "min_ns": times.min_ns,
        "ci_low_ns": times.ci_low_ns,
        "ci_high_ns": times.ci_high_ns,
        **_of_sessions(times, conditions.get("session")),
        "blocks_ns": list(found.blocks_ns),
        "dispatch_ns": summary(found.dispatch_ns).median_ns if found.dispatch_ns else None,
        "dispatch_blocks_ns": list(found.dispatch_ns) or None,
        **rates,
        "ceiling_flops_per_s": bounds.ceilings[0],
        "ceiling_bytes_per_s": bounds.ceilings[1],
        **roofline(*work, bounds.ceilings, times.median_ns),
        "rounds": conditions.get("rounds"),
        "measured_at": found.at,
        "runtime_version": conditions.get("runtime", row["runtime_version"]),
        "measured_with": conditions.get("toolchain"),
        "host": conditions.get("host", row["host"]),
        **{name: conditions.get(name) for name in _CONDITIONS},
    }


def _of_sessions(times: Summary, recorded: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the cells about the noise within a session (one run's measurements) and between sessions."""
    within = times.log_half_width
    if within is None or recorded is None:
        return {"within_session": times.half_width}
    moment = Moment(**recorded)
    later, anchored = moment.later(within), moment.later_anchored(within)
    cells: dict[str, Any] = {
        "within_session": times.half_width,
        "between_sessions": moment.between,
        "later_low_ns": times.median_ns * exp(-later),
        "later_high_ns": times.median_ns * exp(later),
    }
    if moment.factor is None or moment.correction is None:
        return cells
    cells |= {
        "session_factor": moment.factor,
        "session_factor_uncertainty": moment.factor_half_width,
        "sensitivity": moment.sensitivity,
        "sensitivity_uncertainty": Z * moment.sensitivity_sd,
        "anchors_ns": list(moment.anchors_ns),
        "anchors_reference_ns": list(moment.reference_ns),
    }
    if anchored is None:
        return cells
    median_ns = times.median_ns / moment.correction
    return cells | {
        "anchored_median_ns": median_ns,
        "anchored_low_ns": median_ns * exp(-anchored),
        "anchored_high_ns": median_ns * exp(anchored),
    }


def dispatches(chain: CaseState) -> list[tuple[str, str, float | None]]:
    """Return (name, applied configuration, median in ns) of each dispatch, in the compiler's order.

    If a call executes a dispatch several times, the dispatch's time is the sum. The median is None if the dispatch has
    no times."""
    compiled, found = chain["compile"].record, measured(chain)
    times = found.conditions.get("dispatches_ns", {}) if found else {}
    return [
        (name, configuration, summary(times[name]).median_ns if name in times else None)
        for name, configuration in (compiled.facts.get("dispatches", ()) if compiled else ())
    ]


def _each_dispatch(chain: CaseState) -> dict[str, Any]:
    columns = ("dispatches", "dispatch_configurations", "dispatch_medians_ns")
    found = dispatches(chain)
    return {name: list(cells) for name, cells in zip(columns, zip(*found, strict=True), strict=True)} if found else {}
