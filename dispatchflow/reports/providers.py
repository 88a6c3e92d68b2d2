"""Rows → how each compares with the fastest of all providers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dispatchflow.providers import IREE
from dispatchflow.results import PASSED
from dispatchflow.rotation import HOT

Row = Mapping[str, Any]
COLUMN = "percent_of_best_provider"


def place(row: Row) -> tuple[Any, ...]:
    """Rows with the same can be compared. Older parts know neither providers nor caches."""
    return (
        *(row.get(name) for name in ("shape", "target", "threads", "protocol", "host")),
        row.get("cache") or HOT,
    )


def provider(row: Row) -> str:
    return row.get("provider") or IREE


def believed(row: Row) -> bool:
    """Whether its time is."""
    return row["status"] in ("measured", "noisy") and bool(row["median_ns"])


def right(row: Row) -> bool:
    """Whether its result is right and its time to be believed."""
    return row["verification"] in PASSED and believed(row)


def compared(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Each with `COLUMN`: 100 where it is the fastest, 50 where that one takes half of its time. None where only one
    provider was measured, or it is not right itself."""
    shown = list(rows)
    fastest: dict[tuple[Any, ...], float] = {}
    known: dict[tuple[Any, ...], set[str]] = {}
    for row in filter(right, shown):
        at = place(row)
        fastest[at] = min(fastest.get(at, row["median_ns"]), row["median_ns"])
        known.setdefault(at, set()).add(provider(row))

    def percent(row: Row) -> float | None:
        several = len(known.get(place(row), ())) > 1
        return 100 * (fastest[place(row)] / row["median_ns"]) if several and right(row) else None

    return [{**row, COLUMN: percent(row)} for row in shown]
