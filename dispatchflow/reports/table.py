"""Cells → an aligned table, Markdown, CSV, JSON lines. A new format is one function and one entry in `FORMATS`."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]


def text(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Aligned columns; numbers to the right."""
    cells = [[_shown(row.get(column)) for column in columns] for row in rows]
    right = [any(isinstance(row.get(column), int | float) for row in rows) for column in columns]
    return aligned([list(columns), *cells], right)


def aligned(lines: Sequence[Sequence[str]], right: Sequence[bool]) -> str:
    """Lines of cells, the first one the header, as wide as their widest cell."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(right))]
    padded = (
        "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right, strict=True)).rstrip()
        for line in lines
    )
    return "\n".join(padded)


def markdown(columns: Sequence[str], rows: Sequence[Row]) -> str:
    lines = [list(columns), ["---"] * len(columns)]
    lines += [[_shown(row.get(column)).replace("|", "\\|") for column in columns] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def comma_separated(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """RFC 4180 with Unix line ends; lists as JSON, times as ISO 8601, absent values empty."""
    lines = []
    for cells in (columns, *([_plain(row.get(column)) for column in columns] for row in rows)):
        stream = io.StringIO()
        csv.writer(stream).writerow(cells)  # its own CRLF, so that it quotes both
        lines.append(stream.getvalue().removesuffix("\r\n"))
    return "\n".join(lines)


def json_lines(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Infinite and undefined numbers, which JSON lacks, are null."""
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


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e5 else f"{value:,.0f}" if abs(value) < 1e9 else f"{value:.3e}"
    if isinstance(value, list | tuple):
        return ",".join(map(_shown, value))
    return " ".join(str(value).split())


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return json.dumps(list(value))
    return "" if value is None else value
