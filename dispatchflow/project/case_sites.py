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
    """A dict from each site's number to the highest flops/s and bytes/s that apply to the site.

    Calibration kernels reached these rates on this machine. An unknown rate is None."""
    configurations: Mapping[str, str]
    """A dict from each kernel's name to the configuration that the compiler applied, such as tile sizes."""
    alone: Mapping[int, sites.Alone]
    """A dict from the number of each site to the time that it takes when it runs alone.

    To find this time, the site's dispatch is extracted as a separate module, which is then measured."""
    stateful: str | None
    """A remark that the program stores to mutable globals, so that its calls may differ.

    None if the program does not store to globals."""

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """One row for each site, in program order."""
        return sites.rows(self.case, self.program, self.times, self.ceilings, self.configurations, self.alone)

    @property
    def above_ceilings(self) -> list[str]:
        """A list with at most one line, which says how many sites exceed the machine's highest known rates.

        Calibration kernels reached these rates (flops/s and bytes/s). A site with small arrays can exceed these
        rates, because its arrays fit in faster caches than the arrays of the calibration kernels."""
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
    """Return the sites of a case; None if they were not requested or have not been found.

    If an object is damaged, a warning is logged, and the result is None."""
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
