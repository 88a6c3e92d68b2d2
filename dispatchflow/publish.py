"""Chains → rows → Parquet. Rows go to the records first: a killed run's are written by the next one."""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from typing import Any

from dispatchflow import calibration, machine, results
from dispatchflow.chain import Chain
from dispatchflow.operations import Operation
from dispatchflow.workspace import Workspace


def rows_of(workspace: Workspace, chains: Sequence[Chain]) -> list[dict[str, Any]]:
    """One row a chain, as it stands now."""
    around = results.Surroundings(
        workspace.toolchain, platform.node(), machine.cpu().model, workspace.settings.protocol.id, workspace.run
    )
    tags, cache = workspace.plan.tags, machine.last_level_cache_bytes()
    rows = []
    for chain in chains:
        operation = chain.case.operation
        bounds: tuple[float | None, float | None] = (None, None)
        if isinstance(operation, Operation):  # of a user's module nobody said how much it does
            bounds = calibration.ceilings(
                workspace.ceilings.rates(chain.device),
                operation.signature,
                machine.cpu().flags,
                operation.traffic_bytes(),
                cache,
            )
        rows.append(results.row_of(chain, tags[chain.case], bounds, calibration.MARGIN, around, time.time()))
    return rows


def publish(workspace: Workspace, found: Sequence[tuple[Chain, dict[str, Any]]]) -> set[str]:
    """Append the rows that say another thing than the newest of their case and protocol. Returns these cases' names."""
    records = workspace.store.records
    named = {f"{row['case']} {row['protocol']}": (results.identity(chain, row["status"]), row) for chain, row in found}
    said = records.said(named)
    new = {name: named[name] for name in named if said.get(name) != named[name][0]}
    if new:
        records.add_rows(new, workspace.run)
    # Rows first belong to a part, then the part is written: whatever kills us, the next run writes what lacks.
    records.assign_rows(f"{workspace.run}.parquet")
    for part in records.parts():
        path = workspace.store.results / part
        if not path.exists():
            with workspace.store.scratch() as scratch:
                results.write_part(scratch / part, records.rows_of(part))
                (scratch / part).rename(path)
    return {row["case"] for _, row in new.values()}
