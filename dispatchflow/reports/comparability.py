"""Decide which rows of results may be compared, and which rows are the fastest (docs/results.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import sqrt
from typing import Any

from dispatchflow.cases.rotating_inputs import HOT
from dispatchflow.engine.actions import VERIFICATION
from dispatchflow.libraries.providers import IREE
from dispatchflow.timing.statistics import CONFIDENCE, at_confidence, disturbed
from dispatchflow.verification.verdict_words import PASSED

Row = Mapping[str, Any]

_PLACE = ("shape", "target", "threads", "protocol", "host")

_QUESTION: dict[str, Callable[[Row], Any]] = {
    "another program": lambda row: row.get("program_digest"),
    "other inputs": lambda row: row.get("data_digest"),
    "another toolchain": lambda row: maker(row),
}
"""A dict from a kind of difference between two rows, such as `other inputs`, to a function of a row.

Two rows differ in this way if the function returns different values for them."""

OTHER_ROUNDS = "other rounds"
VERIFIES_AGAIN = "repeating the run that measured them verifies them again, and measures only changed code"
"""The advice for rows that are `outdated`."""


def place(row: Row) -> tuple[Any, ...]:
    """Return the tuple (shape, target, threads, protocol, host, cache) of a row.

    Only rows with equal tuples are comparable."""
    # Rows in old Parquet files have no column `cache`. They count as hot.
    return (*(row.get(name) for name in _PLACE), row.get("cache") or HOT)


def provider(row: Row) -> str:
    return row.get("provider") or IREE


def maker(row: Row) -> tuple[Any, ...]:
    """Return the version and revision of the toolchain that a row was made with.

    If a library computed the row's case, return only the library's version."""
    if provider(row) == IREE:
        return row.get("toolchain_version"), row.get("toolchain_revision")
    return (row.get("runtime_version"),)


def believed(row: Row) -> bool:
    """Return whether a row has a median time and the status `measured` or `noisy`."""
    return row["status"] in ("measured", "noisy") and bool(row["median_ns"])


def right(row: Row) -> bool:
    """Return whether a row has a correct result and a credible time.

    The result is correct if it passed the current version of the verification. The time is credible if the status is
    `measured` or `noisy`."""
    return believed(row) and row["verification"] in PASSED and not outdated(row)


def outdated(row: Row) -> bool:
    """Return whether a row's result passed an older version of the verification.

    Returns False if the result did not pass, or if the current version of the verification has judged it."""
    # The oldest rows have no version.
    return row["verification"] in PASSED and (row.get("verification_version") or 0) < VERIFICATION


def obstacle(one: Row, other: Row) -> str | None:
    """Return why the times of two rows cannot be compared, such as `another toolchain`.

    Returns None if the times are comparable. Shape, target and number of threads are not checked."""
    # Callers compare only rows with equal `place`; this is not checked here.
    same_provider = provider(one) == provider(other)
    for why, of in _QUESTION.items():
        if (same_provider or why != "another toolchain") and of(one) != of(other):
            return why
    return None if one.get("rounds") is not None and one["rounds"] == other.get("rounds") else OTHER_ROUNDS


def unbeaten(rows: Iterable[Row]) -> list[Row]:
    """Return the rows that are not certainly slower than a comparable row, sorted by median.

    A row is certainly slower if the interval of its median lies entirely above the interval of a comparable row. The
    Bonferroni correction widens the intervals. If all rows are equally fast, the probability that any row is left out
    is at most 5 %."""
    # Rows of the same rounds have the intervals within the session (`ci_…`). Rows of different rounds have wider ones,
    # for another session (`later_…`), and those after a correction for the machine's speed (`anchored_…`). A row
    # without an interval is neither faster nor slower.
    members = [(row, list(_intervals(row))) for row in rows]
    confidence = 1 - (1 - CONFIDENCE) / max(1, sum(len(intervals) for _, intervals in members))
    lowest, lows = dict[Any, float](), list[tuple[Row, list[tuple[Any, float]]]]()
    for row, intervals in members:
        lows.append((row, []))
        for at, *ends_ns in intervals:
            low_ns, high_ns = at_confidence(ends_ns, len(row["blocks_ns"]), confidence)
            lowest[at] = min(lowest.get(at, high_ns), high_ns)
            lows[-1][1].append((at, low_ns))
    left = [row for row, ends in lows if all(low_ns <= lowest[at] for at, low_ns in ends)]
    return sorted(left, key=lambda row: float(row["median_ns"]))


def _intervals(row: Row) -> Iterable[tuple[Any, float, float, float]]:
    """Yield (group, low end, middle, high end) for each 95 % interval of a row's median, with times in ns.

    Only intervals with equal groups can be compared. A group is a tuple of the values that two rows must have in
    common, such as the digest of the program."""
    # If too many blocks waited for a CPU, the blocks may agree on a wrong time.
    if disturbed(row.get("disturbed_blocks") or 0, len(row.get("blocks_ns") or ())):
        return
    question = (place(row), provider(row), *(of(row) for of in _QUESTION.values()))
    if row.get("rounds") is not None and row.get("ci_low_ns") is not None:
        yield (*question, row["rounds"]), row["ci_low_ns"], row["median_ns"], row["ci_high_ns"]
    if row.get("later_low_ns") is not None:
        yield (*question, "another session"), row["later_low_ns"], row["median_ns"], row["later_high_ns"]
    if row.get("anchors_reference_ns") and row.get("anchored_low_ns") is not None:
        low_ns, high_ns = row["anchored_low_ns"], row["anchored_high_ns"]
        yield (*question, *row["anchors_reference_ns"]), low_ns, sqrt(low_ns * high_ns), high_ns
