"""The time of each of the compiler's passes, read from the JSON of `--mlir-timing`."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

_NO_PASSES = ("root", "Rest", "Total")
_DRIVER = re.compile(
    r".* Pipeline|(?:OpPipelineAdaptor|FixedPointIterator|(?:Configure|Preprocess|Serialize|Translate)AllExecutables"
    r"|(?:Configure|Translate)TargetExecutableVariants|\w*LowerExecutableTarget|\w*LowerExecutableUsingTransformDialect"
    r"|AutoInputConversionPipeline|IterativeFixedPoint)(?:Pass)?"
)
"""A pattern for the names of passes that only run other passes. `parse` leaves these passes out."""


class PassTime(msgspec.Struct, frozen=True):
    """The time of all executions of one pass."""

    name: str
    duration_s: float
    """Wall time of all executions in s, without the time of the passes that are nested in this pass."""
    share: float
    """`duration_s` divided by the wall time of the whole compile, from 0 to 1."""
    executions: int


def parse(text: str) -> list[PassTime]:
    """Return the passes in the output of `--mlir-timing`, from the slowest to the fastest.

    `text` is the compiler's stderr. Lines before and after the JSON are ignored.

    Raises:
        ValueError: `text` contains no JSON of times.
    """
    begin, end = f"\n{text}".find("\n[\n"), text.rfind("\n]")
    if begin < 0 or end < 0:
        raise ValueError("the compiler printed no times of its passes")
    durations: dict[str, float] = {}
    executions: Counter[str] = Counter()
    entries = json.loads(text[begin : end + 2])
    for entry in entries:
        if entry.get("name") not in _NO_PASSES:
            _add(entry, durations, executions)
    total = next((entry["wall"]["duration"] for entry in entries if entry.get("name") == "Total"), 0.0) or 1.0
    slowest = sorted(durations.items(), key=lambda item: -item[1])
    return [PassTime(name, value, value / total, executions[name]) for name, value in slowest]


def _add(entry: Mapping[str, Any], durations: dict[str, float], executions: Counter[str]) -> None:
    below: Sequence[Mapping[str, Any]] = [each for each in entry.get("passes", ()) if each]
    own = entry["wall"]["duration"] - sum(each["wall"]["duration"] for each in below)
    name = entry["name"].rpartition("::")[2]
    if not _DRIVER.fullmatch(name):
        durations[name] = durations.get(name, 0.0) + max(0.0, own)
        executions[name] += 1
    for each in below:
        _add(each, durations, executions)
