"""Select the newest row of each case, and the fastest correct rows of each shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

from dispatchflow import units
from dispatchflow.libraries.providers import IREE
from dispatchflow.reports import providers
from dispatchflow.reports.comparability import (
    VERIFIES_AGAIN,
    Row,
    obstacle,
    outdated,
    place,
    provider,
    right,
    unbeaten,
)

COLUMNS = (
    "shape",
    "file",
    "program_digest",
    "data_digest",
    "target",
    "threads",
    "cache",
    "protocol",
    "host",
    "provider",
    "toolchain_version",
    "tuning",
    "flags",
    "median_us",
    "gflops",
    "speedup",
    providers.COLUMN,
    "status",
    "verification",
)
_OF_PLACES = ("protocol", "host")
_WITHIN_PLACES = ("file", "program_digest", "data_digest", "toolchain_version")


def newest(rows: Iterable[Row]) -> list[Row]:
    """Return the last row for each combination of the columns `case`, `protocol`, `host` and `file`.

    `rows` must be sorted from the oldest to the newest. A row with the status `no device` is replaced by an earlier row
    with another status and the same compiled code, if there is one."""
    found: dict[tuple[Any, ...], Row] = {}
    told: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        case = row["case"], row["protocol"], row.get("host"), row.get("file")
        of_code = (*case, row.get("code_digest"))
        if row["status"] != "no device":
            told[of_code] = row
        found[case] = told.get(of_code, row)
    return list(found.values())


def columns(found: Iterable[Row]) -> tuple[str, ...]:
    """Return the names in `COLUMNS` that help to compare the rows in `found`.

    For example, `host` is left out if all rows have the same host. `flags` is left out if no row has extra flags."""
    rows, values = list(found), dict[Any, set[Any]]()
    for row in rows:
        for name in _OF_PLACES:
            values.setdefault((name,), set()).add(row.get(name))
        for name in _WITHIN_PLACES:
            values.setdefault((name, *place(row), provider(row)), set()).add(row.get(name))
    telling = {name for (name, *_), seen in values.items() if len(seen) > 1}
    idle = {*_OF_PLACES, *_WITHIN_PLACES} - telling
    idle |= set() if any(row.get("flags") for row in rows) else {"flags"}
    return tuple(name for name in COLUMNS if name not in idle)


def best(rows: Iterable[Row], wanted: Callable[[Row], bool] = lambda row: True) -> list[dict[str, Any]]:
    """Return the fastest correct rows for each combination of shape, target, number of threads and so on.

    Only rows for which `wanted` is true are compared and returned. The speedup is relative to the row of the default
    tuning, whether or not this row is wanted."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in filter(right, providers.compared(newest(rows))):
        groups.setdefault((*place(row), provider(row)), []).append(row)
    found = []
    for members in groups.values():
        for winner in _without_duplicates(unbeaten(filter(wanted, members))):
            default = _default(winner, members)
            speedup = None if default is None else default["median_ns"] / winner["median_ns"]
            rate = winner["flops_per_s"]  # unknown for a user's module
            gflops = None if rate is None else rate / 1e9
            derived = {"median_us": winner["median_ns"] / 1e3, "gflops": gflops, "speedup": speedup}
            found.append({**winner, **derived})
    first: dict[tuple[Any, ...], int] = {}
    for row in found:
        for outer in _prefixes(place(row)):
            first.setdefault(outer, len(first))
    found.sort(key=lambda row: [first[outer] for outer in _prefixes(place(row))])
    return found


def _without_duplicates(rows: Iterable[Row]) -> list[Row]:
    """Return the first row for each combination of tuning, flags and measurement.

    For example, `threads=all` and `threads=8` share a measurement on a machine with eight cores. Only the
    first of their rows is kept."""
    kept: dict[Any, Row] = {}
    for row in rows:
        key = row.get("measurement_key") or row["case"]
        kept.setdefault((key, row["tuning"], row.get("flags"), *map(row.get, _WITHIN_PLACES)), row)
    return list(kept.values())


def _default(row: Row, members: Iterable[Row]) -> Row | None:
    return next((other for other in members if _is_default(other) and obstacle(row, other) is None), None)


def _is_default(row: Row) -> bool:
    return row["tuning"] == "default" and not row.get("flags")


def notes(found: Sequence[Row], rows: Iterable[Row]) -> list[str]:
    """Return lines that explain the table of the best rows.

    There is one line for each reason why rows are tied, why they cannot be compared, or why a cell is empty. `found` is
    the result of `best` for `rows`."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in found:
        groups.setdefault((*place(row), provider(row)), []).append(row)
    several: dict[str, list[Row]] = {}
    for members in groups.values():
        for why in dict.fromkeys(obstacle(row, other) for row, other in pairwise(members)):
            said = f"not compared: one is of {why}" if why else "tied: none is certainly faster"
            several.setdefault(said, []).append(members[0])
    lines = [
        f"{said} ({units.count(len(firsts), 'shape')}, such as {firsts[0]['shape']})"
        for said, firsts in several.items()
    ]
    defaults = {(*place(row), provider(row)): row for row in newest(rows) if right(row) and _is_default(row)}
    slower: dict[str, list[Row]] = {}
    for row in found:
        if row["speedup"] is None and provider(row) == IREE:
            default = defaults.get((*place(row), IREE))
            why = f"the default is of {obstacle(row, default)}" if default else "the default has no correct row"
            slower.setdefault(why, []).append(row)
    lines += providers.empty("speedup", slower)
    return lines + providers.notes(found, newest(rows))


def outdated_note(rows: Iterable[Row], said: str) -> list[str]:
    """Return at most one line, which names a case that passed only an older version of verification.

    The line begins with `said`, and ends with how to verify such cases again."""
    names = list(dict.fromkeys(row["case"] for row in rows if outdated(row)))
    if not names:
        return []
    found = names[0] if len(names) == 1 else f"{units.count(len(names), 'case')}, such as {names[0]}"
    return [f"{said}: {found}; {VERIFIES_AGAIN}"]


def _prefixes(place: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    return [place[: n + 1] for n in range(len(place))]
