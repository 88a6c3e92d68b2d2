"""Compare each row's time with the time of the fastest provider (IREE, or a library such as numpy)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dispatchflow import units
from dispatchflow.reports.comparability import Row, maker, obstacle, place, provider, right

COLUMN = "percent_of_best_provider"


def compared(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return the rows with one more column, `percent_of_best_provider`.

    The value is the row's speed in percent of the speed of the fastest comparable row. For example, 50 means that the
    row takes twice as long as the fastest row. The value is None if the row is not correct, or if no other
    provider has a comparable row."""
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
        return 100 * (fastest_ns / float(row["median_ns"]))  # exactly 100 for the fastest

    return [{**row, COLUMN: percent(row)} for row in shown]


def notes(shown: Iterable[Row], rows: Iterable[Row]) -> list[str]:
    """Explain why rows in `shown` are not compared with rows of another provider, such as numpy.

    The result has one line for each reason."""
    others: dict[tuple[Any, ...], dict[str, Row]] = {}
    for row in filter(right, rows):
        others.setdefault(place(row), {})[provider(row)] = row
    reasons: dict[str, list[Row]] = {}
    # A row is explained only if it is right, and another provider has a right row with an equal `place`.
    for row in shown:
        for name, other in others.get(place(row), {}).items() if right(row) and row[COLUMN] is None else ():
            if name != provider(row):
                reasons.setdefault(f"other providers are of {obstacle(row, other)}", []).append(row)
                break
    return empty(COLUMN, reasons)


def empty(column: str, reasons: Mapping[str, Sequence[Row]]) -> list[str]:
    """Return one line for each reason why cells in `column` are empty.

    `reasons` maps each reason to the rows whose cell is empty for this reason."""
    return [
        f"{column} is empty: {why} ({units.count(len(rows), 'row')}, such as {rows[0]['case']})"
        for why, rows in reasons.items()
    ]


def _has_rounds(row: Row) -> bool:
    return right(row) and row.get("rounds") is not None


def _place_and_rounds(row: Row) -> tuple[Any, ...]:
    return (*place(row), row["rounds"])
