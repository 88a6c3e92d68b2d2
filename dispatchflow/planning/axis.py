"""Parse the sizes of a dimension: `64`, `[64, 128]`, `"64:1024:128"`, `"2^4..2^10"`, `"64,128"`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dispatchflow.errors import written
from dispatchflow.units import WHOLE, whole

_RANGE = re.compile(rf"(-?{WHOLE}):(-?{WHOLE})(?::(-?{WHOLE}))?")
_POWERS = re.compile(rf"2\^({WHOLE})\.\.2\^({WHOLE})")
_POWER = re.compile(rf"2\^({WHOLE})")

MAX_SIZE = 2**31 - 1
FORMS = '64, [64, 128], "64:1024:64" (ends included), "2^4..2^10"'
LINE_FORMS = "64 or 64,128 or 64:1024:64 (ends included) or 2^4..2^10"
"""The forms of sizes on the command line, for error messages."""


class AxisError(ValueError):
    """The sizes of a dimension cannot be parsed."""


@dataclass(frozen=True, slots=True)
class Axis:
    """The sizes of one dimension. A size that is written twice counts twice in `len`."""

    parts: tuple[Sequence[int], ...]
    notes: tuple[str, ...] = ()
    """Remarks for the user: for example, the steps of `1:10:4` do not reach 10."""

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def values(self) -> tuple[int, ...]:
        """Return each size once, in the order written."""
        return tuple(dict.fromkeys(value for part in self.parts for value in part))


def axis(written: object, forms: str = FORMS) -> Axis:
    """Parse `written`: a size, a range of sizes, or a list of sizes and ranges.

    `forms` is a text for error messages that describes the allowed forms.

    Raises:
        AxisError: `written` has none of the allowed forms, or a size is outside 1 … 2**31 - 1.
    """
    items = written if isinstance(written, list | tuple) else [written]
    if not items:
        raise AxisError(f"an empty list; write {forms}")
    parts: list[Sequence[int]] = []
    notes: list[str] = []
    for item in items:
        for word in item.split(",") if isinstance(item, str) else (item,):
            part, note = _part(word.strip() if isinstance(word, str) else word, forms)
            for size in {part[0], part[-1]}:
                if not 0 < size <= MAX_SIZE:
                    raise AxisError(f"size {size}; sizes are 1 … {MAX_SIZE}")
            parts.append(part)
            notes += [note] if note else []
    return Axis(tuple(parts), tuple(notes))


def _part(word: object, forms: str) -> tuple[Sequence[int], str | None]:
    if isinstance(word, bool) or not isinstance(word, int | str):
        raise AxisError(f"{written(word)}; write {forms}")
    if isinstance(word, int):
        return (word,), None
    if re.search(r"\d{12}", word):
        raise AxisError(
            f"'{word[:20]}…'; sizes are 1 … {MAX_SIZE}" if len(word) > 20 else f"'{word}'; sizes are 1 … {MAX_SIZE}"
        )
    if whole(word.removeprefix("-")) is not None:
        return (int(word),), None
    if match := _POWER.fullmatch(word):
        return (_power(match[1]),), None
    if match := _POWERS.fullmatch(word):
        low, high = _power(match[1]), _power(match[2])
        if low > high:
            raise AxisError(f"'{word}' goes down")
        return tuple(2**e for e in range(low.bit_length() - 1, high.bit_length())), None
    if match := _RANGE.fullmatch(word):
        return _range(word, int(match[1]), int(match[2]), int(match[3] or 1))
    raise AxisError(f"'{word}'; write {forms}")


def _power(exponent: str) -> int:
    if len(exponent) > 2 or int(exponent) > 30:
        raise AxisError(f"2^{exponent}; sizes are 1 … {MAX_SIZE}")
    return 1 << int(exponent)


def _range(word: str, start: int, stop: int, step: int) -> tuple[Sequence[int], str | None]:
    if step == 0:
        raise AxisError(f"'{word}' has step 0")
    if (stop - start) * step < 0:
        raise AxisError(f"'{word}' never reaches {stop}: the step goes the other way")
    sizes = range(start, stop + (1 if step > 0 else -1), step)
    note = None if sizes[-1] == stop else f"'{word}' ends at {sizes[-1]}; no step reaches {stop}"
    return sizes, note
