"""Format rows as text, Markdown, CSV or JSON lines.

To add a format, write a function and add it to `FORMATS`."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]


def text(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Return a table of aligned columns, with numbers aligned to the right."""
    cells = _cells(columns, rows)
    right = [any(isinstance(row.get(column), int | float) for row in rows) for column in columns]
    return aligned([list(columns), *cells], right)


def aligned(lines: Sequence[Sequence[str]], right: Sequence[bool]) -> str:
    """Return a table with columns as wide as their widest cells.

    `right` says for each column whether its cells are aligned to the right."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(right))]
    padded = (
        "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right, strict=True)).rstrip()
        for line in lines
    )
    return "\n".join(padded)


def markdown(columns: Sequence[str], rows: Sequence[Row]) -> str:
    lines = [list(columns), ["---"] * len(columns)]
    lines += [[cell.replace("|", "\\|") for cell in line] for line in _cells(columns, rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def comma_separated(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Return CSV with Unix line ends. Lists are written as JSON, and absent values as empty cells."""
    lines = []
    for cells in (columns, *([_plain(row.get(column)) for column in columns] for row in rows)):
        stream = io.StringIO()
        csv.writer(stream).writerow(cells)  # with its default line end, CRLF, it quotes cells with a CR or LF
        lines.append(stream.getvalue().removesuffix("\r\n"))
    return "\n".join(lines)


def json_lines(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Return one JSON object per line. Infinity and NaN become null."""
    finite = ({c: None if _undefined(row.get(c)) else row.get(c) for c in columns} for row in rows)
    return "\n".join(json.dumps(row, default=str, ensure_ascii=False) for row in finite)


def _undefined(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


FORMATS: dict[str, Callable[[Sequence[str], Sequence[Row]], str]] = {
    "text": text,
    "markdown": markdown,
    "csv": comma_separated,
    "jsonl": json_lines,
}


def _cells(columns: Sequence[str], rows: Sequence[Row]) -> list[list[str]]:
    # If a column has a number of 1e9 or more, its numbers from 1000 on are written with an exponent.
    large = {}
    for column in columns:
        huge = any(isinstance(value := row.get(column), float) and abs(value) >= 1e9 for row in rows)
        large[column] = ".3e" if huge else ",.0f"
    return [[_shown(row.get(column), large[column]) for column in columns] for row in rows]


def _shown(value: Any, large: str) -> str:
    """Return the text of a value in a table.

    `large` is the format of floats whose absolute value is 1000 or more."""
    if value is None:
        return ""
    if isinstance(value, float):
        return format(value, ".4g" if round(abs(value), 1) < 1e3 else large)
    if isinstance(value, list | tuple):
        return ",".join(_shown(item, ".0f") for item in value)
    return " ".join(str(value).split())


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return json.dumps(list(value))
    return "" if value is None else value
