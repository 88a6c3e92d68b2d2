"""Rows → the newest of each case; the fastest right configuration of each shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dispatchflow.reports import providers

Row = Mapping[str, Any]
COLUMNS = (
    "shape",
    "target",
    "threads",
    "cache",
    "protocol",
    "host",
    "provider",
    "tuning",
    "flags",
    "median_us",
    "gflops",
    "speedup",
    providers.COLUMN,
    "status",
    "verification",
)


def newest(rows: Iterable[Row]) -> list[Row]:
    """The last row of each case under each protocol, in the order of first rows. `rows` are oldest first.

    Where there was no device, what was last found of the same code stands: it was neither refuted nor repeated.
    """
    found: dict[tuple[str, str], Row] = {}
    told: dict[tuple[str, str, str | None], Row] = {}
    for row in rows:
        of_code = (row["case"], row["protocol"], row.get("code_digest"))
        if row["status"] != "no device":
            told[of_code] = row
        found[of_code[:2]] = told.get(of_code, row)
    return list(found.values())


def columns(found: Iterable[Row]) -> tuple[str, ...]:
    """`COLUMNS`, without the protocol and the host where they tell no rows apart, and without flags that none has."""
    rows = list(found)
    idle = {name for name in ("protocol", "host") if len({row.get(name) for row in rows}) < 2}
    idle |= set() if any(row.get("flags") for row in rows) else {"flags"}
    return tuple(name for name in COLUMNS if name not in idle)


def best(rows: Iterable[Row], wanted: Callable[[Row], bool] = lambda row: True) -> list[dict[str, Any]]:
    """One row a (shape, target, threads, cache, protocol, provider): the fastest wanted whose result is right, with its
    speed-up over the default configuration, wanted or not (None when that was not measured, or not right). What is
    compared stands together: providers, below hot and cold, … below shapes, each in the order of first rows."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in filter(providers.right, providers.compared(newest(rows))):
        groups.setdefault((*providers.place(row), providers.provider(row)), []).append(row)
    found = []
    for members in groups.values():
        winner = min(filter(wanted, members), key=lambda row: float(row["median_ns"]), default=None)
        if winner is None:
            continue
        default = next((row for row in members if row["tuning"] == "default" and not row.get("flags")), None)
        speedup = None if default is None else default["median_ns"] / winner["median_ns"]
        rate = winner["flops_per_s"]  # of a user's module it is not known
        gflops = None if rate is None else rate / 1e9
        derived = {"median_us": winner["median_ns"] / 1e3, "gflops": gflops, "speedup": speedup}
        found.append({**winner, **derived})
    first: dict[tuple[Any, ...], int] = {}
    for row in found:
        for outer in _outer(providers.place(row)):
            first.setdefault(outer, len(first))
    found.sort(key=lambda row: [first[outer] for outer in _outer(providers.place(row))])
    return found


def _outer(place: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """The shape; the shape and the target; …; the place."""
    return [place[: n + 1] for n in range(len(place))]
