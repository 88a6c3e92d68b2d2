"""Parse whole numbers, and print numbers with three or four significant digits and a unit."""

from __future__ import annotations

import re

WHOLE = r"(?:0|[1-9][0-9]*)"


def whole(text: str) -> int | None:
    """Parse a whole number that has no leading zero, as in TOML. Return None for any other text."""
    return int(text) if re.fullmatch(WHOLE, text) else None


def is_number(word: str) -> bool:
    """Return whether `float(word)` succeeds."""
    try:
        float(word)
    except ValueError:
        return False
    return True


def seconds(value_s: float) -> str:
    """Return a time as text: `412 ms`, `3.21 s`, `4 min 12 s`."""
    if 60 <= value_s < 1e6:
        return f"{int(value_s // 60)} min {int(value_s % 60)} s"
    return nanoseconds(value_s * 1e9)


def nanoseconds(value_ns: float) -> str:
    for scale, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if value_ns >= scale:
            return f"{_digits(value_ns / scale)} {unit}"
    return f"{_digits(value_ns)} ns"


def count(value: int, noun: str) -> str:
    """Return a number with a noun: `1 case`, `2 cases`."""
    return f"{value:,} {noun}{'' if value == 1 else 's'}"


def size(value_bytes: float) -> str:
    for scale, unit in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if value_bytes >= scale:
            return f"{_digits(value_bytes / scale)} {unit}"
    return f"{int(value_bytes)} B"


def giga(value: float | None) -> str:
    """Return `value` / 10^9 as text without a unit. The text is empty if `value` is None."""
    return "" if value is None else _digits(value / 1e9)


def _digits(value: float) -> str:
    if value >= 1e6 or 0 < value < 0.005:
        return f"{value:.3g}"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
