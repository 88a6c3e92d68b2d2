"""Parse ranges such as `0..15`.

If a spec gives a range for an input of a user's module, the input is filled with random integers of this range."""

from __future__ import annotations

import re

from dispatchflow.cases.literals import integer, is_integer
from dispatchflow.cases.module import ELEMENT_TYPES

_RANGE = re.compile(r"\s*([+-]?\d{1,20})\.\.([+-]?\d{1,20})\s*", re.ASCII)


def bounds(value: str) -> tuple[int, int] | None:
    """Parse a range such as `0..15`, and return its first and last number.

    Returns None if the text is not a range."""
    match = _RANGE.fullmatch(value)
    return (int(match[1]), int(match[2])) if match else None


def check(value: str, element: str) -> tuple[int, int]:
    """Parse the range `value`, check it, and return its first and last number.

    Raises:
        ValueError: the text is not a range, the range is empty, or the element type `element` cannot represent
            every number of the range exactly.
    """
    found = bounds(value)
    if found is None or found[0] > found[1]:
        raise ValueError(f"the range {value} has no number; write 0..15")
    for bound in found:
        if is_integer(element):
            integer(str(bound), element)
        elif element in ELEMENT_TYPES and abs(bound) > (most := 2 ** ELEMENT_TYPES[element].digits):
            raise ValueError(f"{bound} is not representable as {element}, which holds each of {-most} … {most}")
    return found
