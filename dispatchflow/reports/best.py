"""Rows → the newest of each case; the fastest right configuration of each shape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dispatchflow.reports import providers

Row = Mapping[str, Any]
COLUMNS = (
    "shape",
    "target",
    "threads",
    "cache",
    "provider",
    "tuning",
    "median_us",
    "gflops",
    "speedup",
    providers.COLUMN,
    "status",
    "verification",
)


def newest(rows: Iterable[Row]) -> list[Row]:
    """The last row of each case under each protocol, in the order of first rows. `rows` are oldest first."""
    return list({(row["case"], row["protocol"]): row for row in rows}.values())


def best(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """One row a (shape, target, threads, cache, protocol, provider): the fastest whose result is right, with its
    speed-up over the default configuration (None when that was not measured, or not right)."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in filter(providers.right, newest(rows)):
        groups.setdefault((*providers.place(row), providers.provider(row)), []).append(row)
    found = []
    for members in groups.values():
        winner = min(members, key=lambda row: float(row["median_ns"]))
        default = next((row for row in members if row["tuning"] == "default" and not row.get("flags")), None)
        speedup = None if default is None else default["median_ns"] / winner["median_ns"]
        rate = winner["flops_per_s"]  # of a user's module it is not known
        gflops = None if rate is None else rate / 1e9
        derived = {"median_us": winner["median_ns"] / 1e3, "gflops": gflops, "speedup": speedup}
        found.append({**winner, **derived})
    return providers.compared(found)
