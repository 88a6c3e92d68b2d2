"""Format the sites of a program and their times as rows and as tables, with remarks below the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dispatchflow import units
from dispatchflow.models import rollup
from dispatchflow.models.rollup import By
from dispatchflow.models.site import Program, Site
from dispatchflow.models.site_times import AT_LOAD, ProgramTimes, SiteTime
from dispatchflow.reports.table import aligned
from dispatchflow.results import site_rows
from dispatchflow.results.roofline import roofline

Ceilings = tuple[float | None, float | None]
"""The machine's highest measured rates: (flops per s, bytes per s). A rate is None if it is unknown."""

COLUMNS = tuple(site_rows.OF_SITE)
"""The columns of the rows that the function `rows` returns."""


class Alone(NamedTuple):
    """The time of one execution of a site that was extracted from its program and measured by itself."""

    case: str
    median_ns: float
    low_ns: float | None
    high_ns: float | None
    """The upper end of the median's interval for comparison with other runs; None if it is unknown."""
    configuration: str | None = None
    """The configuration, such as tile sizes, that the compiler applied to the extracted site.

    The value is None if the extracted module has several dispatches."""
    cold_ns: float | None = None
    """The median time with inputs that are in no CPU cache. None if this time was not measured."""


_HEADER = ["site", "calls", "median", "±", "share", "GFLOP/s", "GB/s", "peak", "kernel", "operations"]
_RIGHT = [True] * 7 + [False] * 3
_DEPARTURES = 8
_DOUBTS = {"data flow": " (by data flow)", "launch": " (by its launch)"}
PART_COLUMNS = ("case", "part", "sites", "executions", "median_ns", "ci_low_ns", "ci_high_ns", "share")
"""The columns of the rows that the function `part_rows` returns."""
_PART_HEADER, _PART_RIGHT = ["part", "sites", "calls", "median", "±", "share"], [False, False, True, True, True, True]


def rows(
    case: str,
    program: Program,
    times: ProgramTimes | None,
    ceilings: Mapping[int, Ceilings] | None = None,
    configurations: Mapping[str, str] | None = None,
    alone: Mapping[int, Alone] | None = None,
) -> list[dict[str, Any]]:
    """Return one row for each site, in program order. Sites that cannot be distinguished share a row.

    Args:
        times: None if the sites were not measured.
        ceilings: a dict from a site's number to the machine's highest rates for the site's element types.
        configurations: a dict from a kernel's name to the configuration that the compiler applied.
        alone: a dict from a site's number to the time of the extracted site.
    """
    sites = {site.number: site for site in program.sites}
    timed = {time.sites[0]: time for time in times.sites} if times else {}
    hidden = {number for time in timed.values() for number in time.sites[1:]}
    untimed = times.untimed if times else {}
    found = []
    for number, site in sites.items():
        if number in hidden:
            continue
        row = _row(case, site, program, (configurations or {}).get(site.export))
        if (time := timed.get(number)) is not None:
            row |= _times(site, time, (ceilings or {}).get(number, (None, None)))
        by_itself = (alone or {}).get(number)
        row["alone_ns"] = by_itself.median_ns if by_itself else None
        found.append(row | {"untimed": untimed.get(number)})
    return found


def _row(case: str, site: Site, program: Program, configuration: str | None) -> dict[str, Any]:
    named = {operation.number: operation for operation in program.operations}
    return dict.fromkeys(COLUMNS) | {
        "case": case,
        "site": str(site.number),
        "function": site.function,
        "kernel": site.export,
        "operations": [rollup.operation_name(named[origin.operation]) for origin in site.origins],
        "evidence": ", ".join(dict.fromkeys(origin.evidence for origin in site.origins)) or None,
        "flops": site.flops,
        "traffic_bytes": site.traffic_bytes,
        "configuration": configuration,
    }


def _times(site: Site, time: SiteTime, ceilings: Ceilings) -> dict[str, Any]:
    found = time.summary
    row: dict[str, Any] = {
        "site": time.name,
        "executions": time.executions,
        "median_ns": found.median_ns,
        "ci_low_ns": found.ci_low_ns,
        "ci_high_ns": found.ci_high_ns,
        "own_ns": time.own_ns,
        "share": time.share,
        "workgroups": list(time.workgroups) if time.workgroups else None,
        "workers": time.workers,
    }
    if len(time.sites) > 1 or not found.median_ns or not time.executions:
        return row
    one_ns = found.median_ns / time.executions
    for name, amount in (("flops", site.flops), ("bytes", site.traffic_bytes)):
        row[f"{name}_per_s"] = None if amount is None else amount / one_ns * 1e9
    return row | roofline(site.flops, site.traffic_bytes, ceilings, one_ns)


def table(found: Sequence[Mapping[str, Any]]) -> str:
    """Return a table with one line for each row. `found` is a result of the function `rows`."""
    if not found:
        return "no sites: this program launches no dispatch"
    if all(row["alone_ns"] is None for row in found):
        return aligned([_HEADER, *map(_line, found)], _RIGHT)
    lines = [(_line(row), row["alone_ns"]) for row in found]
    cells = [[*line[:4], "" if ns is None else units.nanoseconds(ns), *line[4:]] for line, ns in lines]
    return aligned([[*_HEADER[:4], "alone", *_HEADER[4:]], *cells], [True, *_RIGHT])


def _line(row: Mapping[str, Any]) -> list[str]:
    percent = row["percent_of_peak"]
    doubt = _DOUBTS.get(row["evidence"], "")
    return [
        row["site"],
        _executions(row["executions"]),
        "" if row["median_ns"] is None else units.nanoseconds(row["median_ns"]),
        _half(row["ci_low_ns"], row["ci_high_ns"], row["median_ns"]),
        "" if row["share"] is None else f"{row['share']:.1%}",
        units.giga(row["flops_per_s"]),
        units.giga(row["bytes_per_s"]),
        "" if percent is None else f"{percent:.0f}% {row['bound']}",
        row["kernel"] + (f" ({row['untimed']})" if row["untimed"] else ""),
        (", ".join(row["operations"]) + doubt) if row["operations"] else "none of the source",
    ]


def _executions(count: float | None) -> str:
    return "" if count is None else f"{count:g}"


def _half(low: float | None, high: float | None, median: float | None) -> str:
    if low is None or high is None or not median:
        return ""
    return f"{(high - low) / 2 / median:.1%}"


def part_rows(case: str, program: Program, times: ProgramTimes, by: By, depth: int) -> list[dict[str, Any]]:
    """Return one row for each group of sites, with the group's summed times, the longest time first.

    The arguments `by` and `depth` define the groups; see `rollup.rolled_up`."""
    found = []
    for part in rollup.rolled_up(program, times, by, depth):
        span = part.summary
        times_ns = (span.median_ns, span.ci_low_ns, span.ci_high_ns)
        cells = (case, part.name, list(part.sites), part.executions, *times_ns, part.share)
        found.append(dict(zip(PART_COLUMNS, cells, strict=True)))
    return found


def parts(program: Program, times: ProgramTimes, by: By, depth: int) -> str:
    """Return a table with the summed times of each group of sites, the longest time first.

    The arguments `by` and `depth` define the groups; see `rollup.rolled_up`."""
    lines = [
        [
            part.name,
            ",".join(map(str, part.sites)),
            _executions(part.executions),
            units.nanoseconds(part.summary.median_ns),
            _half(part.summary.ci_low_ns, part.summary.ci_high_ns, part.summary.median_ns),
            f"{part.share:.1%}",
        ]
        for part in rollup.rolled_up(program, times, by, depth)
    ]
    return aligned([_PART_HEADER, *lines], _PART_RIGHT)


def departures(times: ProgramTimes, alone: Mapping[int, Alone]) -> list[str]:
    """Return a remark that names the sites whose times differ from the times of the extracted sites.

    The list is empty if there are no such sites. Two times differ if their intervals do not overlap. `alone` is a dict
    from a site's number to the time of the extracted site."""
    apart: list[tuple[float, str]] = []
    cold_is_known = any(found.cold_ns is not None for found in alone.values())
    for time in times.sites:
        found, here = alone.get(time.sites[0]), time.summary
        if found is None or len(time.sites) > 1 or not time.executions or not here.median_ns:
            continue
        ends = (here.ci_low_ns, here.ci_high_ns, found.low_ns, found.high_ns)
        if any(end is None for end in ends):
            continue
        low, high, own_low, own_high = (end or 0.0 for end in ends)
        if own_low > high / time.executions or own_high < low / time.executions:
            here_ns = here.median_ns / time.executions
            more = found.median_ns / here_ns - 1
            cold = "" if found.cold_ns is None else f" (with cold inputs {found.cold_ns / here_ns - 1:+.0%})"
            apart.append((-abs(more), f"site {time.name} {more:+.0%}{cold}"))
    if not apart:
        return []
    named = [words for _, words in sorted(apart)[:_DEPARTURES]]
    rest = f" and {len(apart) - len(named)} more" if len(apart) > len(named) else ""
    hint = "" if cold_is_known else "; measure them with cache=cold too, to see whether caches are the cause"
    return [f"the time alone differs from the time here by more than the noise: {', '.join(named)}{rest}{hint}"]


def above_ceilings(found: Sequence[Mapping[str, Any]], margin: float) -> list[str]:
    """Return at most one remark, about the sites whose `percent_of_peak` is above 100 * `margin`.

    The remark names the site with the highest percentage. `found` has the rows that `rows` returned."""
    above = [(row["percent_of_peak"], row["site"]) for row in found if (row["percent_of_peak"] or 0) > 100 * margin]
    if not above:
        return []
    percent, site = max(above)
    why = "small arrays are in faster caches than those with which the highest rates were measured"
    count = f"{units.count(len(above), 'site')} above the machine's highest rates"
    return [f"{count}, such as {site} ({percent:.0f}%): {why}"]


def reconfigured(program: Program, configurations: Mapping[str, str], alone: Mapping[int, Alone]) -> list[str]:
    """Return a line for each site that has different configurations in its program and when extracted.

    `configurations` is a dict from a kernel's name to its configuration in the program, such as tile sizes. `alone`
    has the measurement of each extracted site."""
    lines = []
    for site in program.sites:
        here, found = configurations.get(site.export), alone.get(site.number)
        if found is not None and None not in (here, found.configuration) and here != found.configuration:
            own = f"applied {found.configuration} alone in {found.case}, and {here} here"
            lines.append(f"site {site.number}: the compiler {own}: the two times are of different code")
    return lines


def remarks(program: Program, times: ProgramTimes | None, doubt: str | None) -> list[str]:
    """Return the lines below a table of sites.

    One line splits the time of a call into its parts. Further lines explain the table. `doubt` is the reason why the
    sites have no times; None if they have times."""
    lines = []
    if times is not None:
        split = times.split
        named = {
            "dispatches": split.dispatches_ns,
            "launching": split.launching_ns,
            "allocation": split.allocation_ns,
            "waiting": split.waiting_ns,
            "host": split.host_ns,
        }
        shares = ", ".join(f"{name} {units.nanoseconds(ns)}" for name, ns in named.items())
        lines.append(f"one call takes {units.nanoseconds(split.call_ns)}: {shares}")
        loaded = units.count(list(times.untimed.values()).count(AT_LOAD), "site")
        if times.at_load_ns is not None:
            lines.append(f"at load: {loaded}, {units.nanoseconds(times.at_load_ns)} in all, by replay")
        elif times.load_unknown is not None:
            lines.append(f"at load: {loaded}, without a time: {times.load_unknown}")
        if not times.steady:
            lines.append("stateful: each call differs, so times are means over all calls, warm-up included")
        if times.ambiguous:
            groups = ", ".join("|".join(map(str, group)) for group in times.ambiguous)
            lines.append(f"sites that cannot be told apart by their dispatches share a line: {groups}")
    if doubt is not None:
        lines.append(doubt)
    if program.unlabelled is not None:
        lines.append(f"names and places of operations are unknown: {program.unlabelled}")
    if absent := program.unplaced:
        shown = ", ".join(rollup.operation_name(operation) for operation in absent[:8])
        more = f" and {len(absent) - 8} more" if len(absent) > 8 else ""
        lines.append(
            f"in no site, because they are constant, part of others, done in place, or plain copies: {shown}{more}"
        )
    return lines
