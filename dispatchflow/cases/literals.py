"""Parse the numbers that a spec gives as inputs of a user's module."""

from __future__ import annotations

import re
from decimal import Decimal


def words(value: str) -> list[str]:
    """Split `1, 2 3` into its numbers, each as text."""
    return value.replace(",", " ").split()


def integer(word: str, element: str) -> int:
    """Parse `word` as an integer of the type `element`, such as `i8` or `index`.

    Raises:
        ValueError: the number is not an integer in the range of the type.
    """
    bits = 64 if element == "index" else int(element[1:])
    low, high = (0, 1) if bits == 1 else (-(1 << bits - 1), (1 << bits - 1) - 1)
    value = Decimal(word.replace("_", ""))
    if not (value.is_finite() and low <= value <= high and value == value.to_integral_value()):
        raise ValueError(f"{word} is not representable as {element}, {low} … {high}")
    return int(value)


def is_integer(element: str) -> bool:
    return re.fullmatch(r"index|i\d+", element) is not None
