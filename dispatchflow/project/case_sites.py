"""Read the sites of a case, and their times, from the store.

A site is a place of a program that launches a dispatch."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from dispatchflow.engine.state import CaseState
from dispatchflow.measurement import calibration
from dispatchflow.models.site import Program
from dispatchflow.models.site_times import ProgramTimes
from dispatchflow.project import alone
from dispatchflow.project.workspace import Workspace
from dispatchflow.reports import sites
from dispatchflow.results import status
from dispatchflow.store.store import DamagedObject

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CaseSites:
    case: str
    program: Program
    times: ProgramTimes | None
    """The times of the sites; None if they cannot be measured."""
    doubt: str | None
    """The reason why the sites have no times; None if there are times."""
    ceilings: Mapping[int, sites.Ceilings]
    """Site's number → the highest rates of this machine for the site."""
    configurations: Mapping[str, str]
    """Kernel → the configuration that the compiler applied."""
    alone: Mapping[int, sites.Alone]
    """Site's number → its time when it runs alone, measured as a case of its extracted module."""
    stateful: str | None
    """The remark that calls may differ, because the program stores to mutable globals; or None."""

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """One row for each site, in program order."""
        return sites.rows(self.case, self.program, self.times, self.ceilings, self.configurations, self.alone)

    @property
    def above_ceilings(self) -> list[str]:
        """At most one line: the sites that are faster than recorded ceilings, which are then too low."""
        return sites.above_ceilings(self.rows, calibration.MARGIN)

    @property
    def text(self) -> str:
        """The table of all sites, and the remarks below it."""
        return "\n".join([f"sites of {self.case}", sites.table(self.rows), *self.remarks])

    @property
    def remarks(self) -> list[str]:
        """The lines below the table of sites."""
        found = sites.remarks(self.program, self.times, self.doubt)
        if self.times is None:
            return found
        other = sites.reconfigured(self.program, self.configurations, self.alone)
        if self.stateful is not None and self.times.steady:
            found.append(self.stateful)
        return [*found, *self.above_ceilings, *sites.departures(self.times, self.alone), *other]


def load(workspace: Workspace, chain: CaseState) -> CaseSites | None:
    """Return the sites of a case; None if they were not requested, or are not known.

    If an object is damaged, a warning is logged and the result is None. The next run makes the object again."""
    step = chain.sites
    if step is None or step.record is None or step.state != "made":
        return None
    outputs, store, times = step.record.outputs, workspace.store, None
    try:
        program = msgspec.json.decode(store.checked(outputs["sites"]).read_bytes(), type=Program)
        if "times" in outputs:
            times = msgspec.json.decode(store.checked(outputs["times"]).read_bytes(), type=ProgramTimes)
        found = alone.times(workspace, chain, program)
    except DamagedObject as damaged:
        _log.warning("object %s of %s was damaged or missing; the next run makes it", damaged, chain.case.name)
        return None
    compiled, emitted = chain["compile"].record, chain["emit"].record
    stateful = status.stores(emitted.facts) if emitted else None
    applied = dict(compiled.facts.get("dispatches", ())) if compiled else {}
    ceilings = workspace.ceilings.of_sites(program, chain.case.target, chain.device)
    return CaseSites(chain.case.name, program, times, step.doubt, ceilings, applied, found, stateful)
