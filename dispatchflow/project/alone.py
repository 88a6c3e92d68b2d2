"""Find the time that each site of a program takes when it runs alone.

A site is a place of the program that launches a dispatch. To run a site alone, its dispatch is extracted as a separate
module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dispatchflow.cases.dispatch import digest_of_module
from dispatchflow.engine import extraction as extracting
from dispatchflow.engine.state import CaseState
from dispatchflow.models import extraction
from dispatchflow.models.extraction import Extracted
from dispatchflow.models.site import Program
from dispatchflow.project.workspace import Workspace
from dispatchflow.reports.sites import Alone
from dispatchflow.results import parquet
from dispatchflow.timing.statistics import summary

_ENDS = ("later_low_ns", "later_high_ns")


def times(workspace: Workspace, chain: CaseState, program: Program) -> dict[int, Alone]:
    """Return a dict from a site's number to the time that the site takes when it runs alone.

    The times are from rows with the case's target, device, threads and toolchain. For each extracted module, the newest
    row with hot inputs is used. The newest row with cold inputs is used too, if there is one. Sites without a time for
    hot inputs are missing.

    Raises:
        DamagedObject: an object was damaged or missing; its records have been dropped.
    """
    flow = chain.sites.record.outputs.get("flow") if chain.sites and chain.sites.record else None
    if flow is None:
        return {}
    made = workspace.resolver.recorded(extracting.action(flow, workspace.toolchain.digest))
    if made is None or not made.ok:
        return {}
    content = workspace.store.checked(made.outputs[extracting.FACTS]).read_bytes()
    found = msgspec.json.decode(content, type=Extracted)
    modules = {
        digest_of_module(made.outputs[f"{n}.mlir"], extraction.FUNCTION): n for n in set(found.dispatches.values())
    }
    newest: dict[int, Mapping[str, Any]] = {}
    cold: dict[int, Mapping[str, Any]] = {}
    for row in parquet.read(workspace.store.root / parquet.CASES.folder):
        if row["program_digest"] in modules and _comparable(row, workspace, chain):
            if row["cache"] == "cold":
                cold[modules[row["program_digest"]]] = row
            elif row["dispatch_blocks_ns"]:
                newest[modules[row["program_digest"]]] = row
    known = {module: _alone(row, cold.get(module)) for module, row in newest.items()}
    numbers = {site.number: found.dispatches.get(site.dispatch) for site in program.sites if site.dispatch is not None}
    return {site: known[module] for site, module in numbers.items() if module in known}


def _comparable(row: Mapping[str, Any], workspace: Workspace, chain: CaseState) -> bool:
    wanted = {
        "target": chain.case.target.name,
        "device": chain.device.uri,
        "threads": chain.device.threads,
        "toolchain_version": workspace.toolchain.version,
    }
    return row["median_ns"] is not None and all(row[name] == value for name, value in wanted.items())


def _alone(row: Mapping[str, Any], cold: Mapping[str, Any] | None) -> Alone:
    found = summary(row["dispatch_blocks_ns"])
    # With cold inputs, only the whole call is timed; what it takes besides the dispatch is the same.
    cold_ns = cold["median_ns"] - (row["median_ns"] - found.median_ns) if cold else None
    known = row["later_low_ns"] is not None  # the whole call's interval is scaled to the dispatch's median
    low, high = (found.median_ns * row[end] / row["median_ns"] if known else None for end in _ENDS)
    only = row["dispatch_configurations"][0] if len(row["dispatch_configurations"] or ()) == 1 else None
    return Alone(row["case"], found.median_ns, low, high, only, cold_ns)
