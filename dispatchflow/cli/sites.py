"""Format the tables of sites for a run with the stage `sites`.

A site is a place in a program where a dispatch is launched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dispatchflow.engine.state import CaseState, StageState
from dispatchflow.errors import NothingMatched, SpecError, suggestion
from dispatchflow.models import site_choice
from dispatchflow.project import case_sites
from dispatchflow.project.case_sites import CaseSites
from dispatchflow.project.workspace import Workspace
from dispatchflow.reports import sites
from dispatchflow.reports.table import FORMATS
from dispatchflow.stages import SITES, cases_named

VARIABLES = ("by", "depth", "kernel", "top", "sort", "format", "out")
"""The variables that a run accepts only if it selects cases for the stage `sites`."""


def requested(words: Sequence[str]) -> bool:
    """Return whether a word of the command line selects cases for the stage `sites`."""
    return any((named := cases_named(word)) is not None and named[0] == SITES for word in words)


def failures(chains: Sequence[CaseState]) -> dict[str, str]:
    """Return a dict from case name to reason, for the cases whose stage `sites` failed."""
    return {
        chain.case.name: chain.sites.why
        for chain in chains
        if chain.sites is not None and chain.sites.state == "failed"
    }


def text(workspace: Workspace, chains: Sequence[CaseState]) -> str:
    """Return a table of the sites of each case. The variable `format=` selects the table's format.

    Raises:
        SpecError: `sort=` names no column, or `depth=` is given without `by=scope`.
        NothingMatched: no site has the kernel that `kernel=` names.
    """
    values = workspace.values
    if "depth" in values and values.get("by") != "scope":
        raise SpecError("depth= needs by=scope", {"given": f"depth={values['depth']}"}, "")
    found = {chain.case.name: loaded for chain in chains if (loaded := case_sites.load(workspace, chain)) is not None}
    rows = {name: list(_chosen(loaded.rows, values)) for name, loaded in found.items()}
    if found and "kernel" in values and not any(rows.values()):
        kernels = [*dict.fromkeys(site.export for loaded in found.values() for site in loaded.program.sites)]
        more = f", and {len(kernels) - 10} more" if len(kernels) > 10 else ""
        facts = {"kernels": ", ".join(kernels[:10]) + more}
        near = suggestion(values["kernel"], kernels)
        raise NothingMatched(f"no site has the kernel '{values['kernel']}'", facts, near)
    if "format" in values and "by" in values:
        by, depth = values["by"], values.get("depth", 1)
        timed = [(name, loaded.program, loaded.times) for name, loaded in found.items() if loaded.times is not None]
        added = [row for name, program, times in timed for row in sites.part_rows(name, program, times, by, depth)]
        return FORMATS[values["format"]](sites.PART_COLUMNS, added)
    if "format" in values:
        return FORMATS[values["format"]](sites.COLUMNS, [row for each in rows.values() for row in each])
    tables = ["\n".join(_lines(rows[name], loaded, values)) for name, loaded in found.items()]
    rest = [
        f"sites of {chain.case.name}: {_missing(chain.sites)}"
        for chain in chains
        if chain.sites is not None and chain.case.name not in found
    ]
    return "\n\n".join([*tables, *rest])


def _missing(state: StageState) -> str:
    # If the stage is `made`, but its sites could not be loaded, an object in the store is damaged. `case_sites.load`
    # has reported this and dropped the stage's record.
    return "damaged; the next run makes them" if state.state == "made" else f"{state.state}: {state.why}"


def _chosen(rows: Sequence[dict[str, Any]], values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    column = values.get("sort", "site").removeprefix("-")
    if column not in sites.COLUMNS:
        raise SpecError(f"no column '{column}'", {"columns": ", ".join(sites.COLUMNS)}, "")
    kernel = values.get("kernel")
    kept = [row for row in rows if kernel is None or site_choice.is_kernel(row["kernel"], kernel)]
    if "sort" in values:
        known = [row for row in kept if row[column] is not None]
        unknown = [row for row in kept if row[column] is None]
        kept = [*sorted(known, key=lambda row: row[column], reverse=values["sort"].startswith("-")), *unknown]
    yield from kept[: values.get("top")]


def _lines(rows: Sequence[dict[str, Any]], found: CaseSites, values: Mapping[str, Any]) -> Iterator[str]:
    yield f"sites of {found.case}"
    if "by" in values and found.times is not None:
        yield sites.parts(found.program, found.times, values["by"], values.get("depth", 1))
    else:
        yield sites.table(rows)
    yield from found.remarks
