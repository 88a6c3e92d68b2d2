"""Select, sort and format rows of the Parquet files, for `doit report` and `doit best`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dispatchflow.errors import NothingMatched, SpecError, StoreError, suggestion
from dispatchflow.planning.patterns import any_match, matches
from dispatchflow.reports import best as best_report
from dispatchflow.reports import providers
from dispatchflow.reports.comparability import OTHER_ROUNDS, VERIFIES_AGAIN, believed, outdated
from dispatchflow.reports.table import FORMATS
from dispatchflow.results import parquet
from dispatchflow.stages import STAGES

_BETWEEN_SESSIONS = {"median_ns": ("anchored_median_ns", "anchored_low_ns", "anchored_high_ns", "session_factor")}
"""A dict from a column to the columns that are added after it if a table has rows of several sessions.

A session consists of the measurements of one run."""

_OUTDATED = "(outdated)"

_REPORT_COLUMNS = (
    "case",
    "status",
    "verification",
    "score",
    "median_ns",
    "ci_low_ns",
    "ci_high_ns",
    "flops_per_s",
    "bytes_per_s",
    "percent_of_peak",
    "bound",
    providers.COLUMN,
    "protocol",
    "toolchain_version",
)


def report(folder: Path, values: Mapping[str, Any], words: Sequence[str], fastest: bool) -> str:
    """Return the text of `doit report`, or of `doit best` if `fastest` is true.

    `folder` has the Parquet files. `values` are the variables of the command line, and `words` are the patterns for
    names of cases.

    Raises:
        SpecError: a column is unknown.
        NothingMatched: no row is left to show, or a pattern or tag matches no row.
        StoreError: a Parquet file cannot be read.
    """
    rows: Sequence[Mapping[str, Any]] = _read(folder)
    rows = rows if values.get("history") else best_report.newest(rows)
    tags: Sequence[str] = values.get("tags", ())

    def wanted(row: Mapping[str, Any]) -> bool:
        return _wanted(row, words, tags)

    chosen = [row for row in rows if wanted(row)]
    idle = [word for word in words if not any(_wanted(row, [word], ()) for row in rows)]
    idle_tags = [tag for tag in tags if not any(_wanted(row, (), [tag]) for row in rows)]
    if idle or idle_tags or not chosen:
        raise _no_rows(rows, folder, idle, idle_tags)
    # Rows are compared with all rows, not only with those that are shown.
    shown: Sequence[Mapping[str, Any]]
    columns: Sequence[str]
    if fastest:
        shown = best_report.best(rows, wanted)
        if not shown:
            raise _none_right(chosen)
        columns = best_report.columns(shown)
        known = tuple(dict.fromkeys((*best_report.COLUMNS, *parquet.COLUMNS)))
    else:
        shown = [row for row in providers.compared(rows) if wanted(row)]
        columns, known = _REPORT_COLUMNS, (*parquet.COLUMNS, providers.COLUMN)
        if values.get("history"):  # rows of several sessions
            columns = tuple(both for name in columns for both in (name, *_BETWEEN_SESSIONS.get(name, ())))
    style = values.get("format", "text")
    if "columns" in values or style in ("csv", "jsonl"):
        columns = values.get("columns", known)
    _check_columns([*columns, values.get("sort", "case").lstrip("-")], known)
    shown = _top(_sorted(shown, values.get("sort", "-flops_per_s" if "top" in values else None)), values.get("top"))
    if style not in ("text", "markdown"):  # read by programs
        return FORMATS[style](columns, shown)
    lines = best_report.outdated_note(
        best_report.newest(chosen),
        "left out, passed by an older verification" if fastest else f"{_OUTDATED}, passed by an older verification",
    )
    said = FORMATS[style](columns, [_marked(row) for row in shown])
    lines += best_report.notes(shown, rows) if fastest else providers.notes(shown, rows)
    if any(OTHER_ROUNDS in line for line in lines):
        lines.append("a run with remeasure=yes measures the cases of a shape in the same rounds")
    return "\n".join([said, *([""] if lines else []), *lines])


def formatted(rows: Sequence[Mapping[str, Any]], values: Mapping[str, Any], known: Sequence[str]) -> str:
    """Return rows as text, in the order and format that the command line requests.

    `values` has the command line's `columns`, `sort`, `top` and `format`. `known` has all columns, which are the
    default of `columns`.

    Raises:
        SpecError: `columns` or `sort` names an unknown column.
    """
    columns = values.get("columns", known)
    _check_columns([*columns, values.get("sort", known[0]).lstrip("-")], known)
    return FORMATS[values.get("format", "text")](columns, _top(_sorted(rows, values.get("sort")), values.get("top")))


def _marked(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**row, "verification": f"{row['verification']} {_OUTDATED}"} if outdated(row) else row


def _no_rows(
    rows: Sequence[Mapping[str, Any]], folder: Path, words: Sequence[str], tags: Sequence[str]
) -> NothingMatched:
    """Return the error for patterns (`words`) and tags that match none of `rows`."""
    if not rows:
        hint = "Run doit 'profile:*' first. doit report stage=verify shows verdicts without a measurement."
        return NothingMatched("there are no rows yet", {"in": folder}, hint)
    names = sorted({row["case"] for row in rows})
    facts: dict[str, object] = {"rows": len(rows), "in": folder, "cases": ", ".join(names[:3])}
    known = sorted({tag for row in rows for tag in row["tags"] or ()})
    # If both are empty, each given pattern and tag matches some row, but no row matches all of them.
    facts |= {"given": " ".join([*words, *(f"tags={tag}" for tag in tags)])} if words or tags else {}
    facts |= {"tags": ", ".join(known) or "none"} if tags else {}
    near = [suggestion(word.rpartition(":")[2], names[:1000]) for word in words]
    near += [suggestion(tag, known) for tag in tags]
    return NothingMatched("no rows match", facts, next(filter(None, near), ""))


def _none_right(rows: Sequence[Mapping[str, Any]]) -> NothingMatched:
    """Return the error for a `doit best` that finds no row with a correct result and a credible time.

    `rows` are the rows that match the patterns and tags of the command line."""
    states = Counter(f"{row['status']} ({row['verification']})" for row in rows)
    facts: dict[str, object] = {"rows": ", ".join(f"{count} {state}" for state, count in states.most_common())}
    reason = rows[0]["verification"] if believed(rows[0]) else rows[0]["reason"]
    hint = "doit report columns=case,status,verification,reason shows them all."
    if any(row["verification"] == "not verified" for row in rows):
        hint += " A run without verify=off verifies them and measures nothing again."
    if any(map(outdated, rows)):
        reason = "an older verification passed it" if outdated(rows[0]) else reason
        hint += f" {VERIFIES_AGAIN.capitalize()}."
    facts |= {"for example": rows[0]["case"], "reason": " ".join((reason or "").split()) or "none"}
    return NothingMatched("no row has a correct result and a credible time", facts, hint)


def _read(folder: Path) -> list[dict[str, Any]]:
    try:
        return parquet.read(folder)
    except ValueError as error:
        facts = {"in": folder, "found": error}
        hint = "Remove that part: the next run writes it again."
        if isinstance(error.__cause__, PermissionError):
            hint = "Give yourself permission to read it."
        raise StoreError("a results part cannot be read", facts, hint) from error


def _wanted(row: Mapping[str, Any], words: Sequence[str], tags: Sequence[str]) -> bool:
    patterns = [word.split(":", 1)[1] if word.split(":")[0] in STAGES and ":" in word else word for word in words]
    named = not patterns or any(matches(row["case"], pattern) for pattern in patterns)
    return named and (not tags or any_match(row["tags"] or (), tags))


def _check_columns(columns: Sequence[str], known: Sequence[str]) -> None:
    for column in columns:
        if column not in known:
            near = suggestion(column, known)
            facts = {} if near else {"known": ", ".join(known)}
            raise SpecError(f"unknown column '{column}'", facts, near or "docs/results.md explains each column.")


def _sorted(rows: Sequence[Mapping[str, Any]], by: str | None) -> list[Mapping[str, Any]]:
    """Return rows sorted by the column `by`, in descending order if `by` begins with `-`.

    Rows without a value in this column are last. If `by` is None, the order stays."""
    if by is None:
        return list(rows)
    column = by.lstrip("-")
    having = sorted(
        (row for row in rows if row.get(column) is not None), key=lambda row: row[column], reverse=by.startswith("-")
    )
    return having + [row for row in rows if row.get(column) is None]


def _top(rows: Sequence[Mapping[str, Any]], count: int | None) -> list[Mapping[str, Any]]:
    """Return the first `count` rows of each operation, or all rows if `count` is None."""
    seen: Counter[str] = Counter()
    kept = []
    for row in rows:
        seen[row["operation"]] += 1
        if count is None or seen[row["operation"]] <= count:
            kept.append(row)
    return kept
