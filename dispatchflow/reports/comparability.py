"""Which rows may be compared, and what a comparison of their times says; docs/results.md has the same for readers.

Two rows answer one question when they computed the same program on the same inputs, with the same target, threads,
caches and protocol, on one machine; two of IREE also with one toolchain. The ratio of their medians means something
when they were also measured in the same rounds: then drift fell on both alike. Rows of different rounds are compared by
where another session's times would fall, and only to find out which of two is faster.
"""

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
"""What rows of one place may differ in, and then are not compared."""

OTHER_ROUNDS = "other rounds"


def place(row: Row) -> tuple[Any, ...]:
    """What a table of the fastest rows has a line for. Older parts do not know caches."""
    return (*(row.get(name) for name in _PLACE), row.get("cache") or HOT)


def provider(row: Row) -> str:
    return row.get("provider") or IREE


def maker(row: Row) -> tuple[Any, ...]:
    """The toolchain; the version of a library."""
    if provider(row) == IREE:
        return row.get("toolchain_version"), row.get("toolchain_revision")
    return (row.get("runtime_version"),)


def believed(row: Row) -> bool:
    """Whether its time is."""
    return row["status"] in ("measured", "noisy") and bool(row["median_ns"])


def right(row: Row) -> bool:
    """Whether its result is right, by the present verification, and its time to be believed."""
    return believed(row) and row["verification"] in PASSED and not outdated(row)


def outdated(row: Row) -> bool:
    """Whether an older version of the verification passed it, which saw less. Rows of before do not say which."""
    return row["verification"] in PASSED and (row.get("verification_version") or 0) < VERIFICATION


def obstacle(one: Row, other: Row) -> str | None:
    """Why the ratio of the times of two rows of one place says nothing: what the other one has; None where it may be
    taken."""
    same_provider = provider(one) == provider(other)
    for why, of in _QUESTION.items():
        if (same_provider or why != "another toolchain") and of(one) != of(other):
            return why
    return None if one.get("rounds") is not None and one["rounds"] == other.get("rounds") else OTHER_ROUNDS


def unbeaten(rows: Iterable[Row]) -> list[Row]:
    """Those than which none is certainly faster, the fastest median first.

    A row is certainly faster than another one that it may be compared with when the intervals of their medians do not
    overlap. For rows of different rounds these are the intervals of another session's median, and of its anchored
    median, relative to the same session's anchors. They are the wider ones, so in the same rounds they decide nothing
    that the others do not. A row without an interval is neither faster nor slower.

    The more intervals are compared, the wider they are (Bonferroni): of equally fast rows, however many, one is called
    slower in at most 5 % of all calls. Intervals of 95 % drop some of 50 equally fast rows in most calls.
    """
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
    """(what has the same can be compared, low, median, high), of 95 %; none of one that waited for a CPU, whose blocks
    may agree on a time that is wrong."""
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
