"""Rows → how each compares with the fastest of all providers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dispatchflow import units
from dispatchflow.reports.comparability import Row, maker, obstacle, place, provider, right

COLUMN = "percent_of_best_provider"


def compared(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Each with `COLUMN`: 100 where it is the fastest of those that it may be compared with, 50 where that one takes
    half of its time. None where these are of one provider, or it is not right itself."""
    shown = list(rows)
    fastest: dict[tuple[Any, ...], dict[tuple[Any, ...], Row]] = {}
    for row in filter(_has_rounds, shown):
        known = fastest.setdefault(_place_and_rounds(row), {})
        made_by = provider(row), maker(row)
        if made_by not in known or row["median_ns"] < known[made_by]["median_ns"]:
            known[made_by] = row

    def percent(row: Row) -> float | None:
        if not _has_rounds(row):
            return None
        rivals = [other for other in fastest[_place_and_rounds(row)].values() if obstacle(row, other) is None]
        if len({provider(other) for other in rivals}) < 2:
            return None
        fastest_ns = min(float(other["median_ns"]) for other in rivals)
        return 100 * (fastest_ns / float(row["median_ns"]))  # exactly 100 of the fastest

    return [{**row, COLUMN: percent(row)} for row in shown]


def notes(shown: Iterable[Row], rows: Iterable[Row]) -> list[str]:
    """Why right rows have no `COLUMN` though other providers were measured at their place, a line for each reason.
    `rows`: all that they were compared with."""
    others: dict[tuple[Any, ...], dict[str, Row]] = {}
    for row in filter(right, rows):
        others.setdefault(place(row), {})[provider(row)] = row
    reasons: dict[str, list[Row]] = {}
    for row in shown:
        for name, other in others.get(place(row), {}).items() if right(row) and row[COLUMN] is None else ():
            if name != provider(row):
                reasons.setdefault(f"other providers are of {obstacle(row, other)}", []).append(row)
                break
    return empty(COLUMN, reasons)


def empty(column: str, reasons: Mapping[str, Sequence[Row]]) -> list[str]:
    """Reason → the rows that have no such cell for it, in a line each."""
    return [
        f"{column} is empty: {why} ({units.count(len(rows), 'row')}, such as {rows[0]['case']})"
        for why, rows in reasons.items()
    ]


def _has_rounds(row: Row) -> bool:
    return right(row) and row.get("rounds") is not None


def _place_and_rounds(row: Row) -> tuple[Any, ...]:
    return (*place(row), row["rounds"])
