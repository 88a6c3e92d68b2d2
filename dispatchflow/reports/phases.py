"""Format tables of the compiler's phases and passes, and differences between modules."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence

from dispatchflow import units
from dispatchflow.iree.pass_times import PassTime
from dispatchflow.iree.phases import Phase
from dispatchflow.reports.table import aligned

_SHOWN = 10
_WIDTH = 400
_HUNK = re.compile(r"@@ -(\d+)((?:,\d+)?) \+(\d+)((?:,\d+)?) @@")
_CONTEXT = 3


def listing(sizes: Mapping[Phase, int], paths: Mapping[Phase, str]) -> str:
    """Return a table of the compiler's phases: number, name, and the size and path of the dumped module."""
    lines = [["phase", "", "size", "file"]]
    lines += [[str(phase.number), phase.name, units.size(size), paths[phase]] for phase, size in sizes.items()]
    return aligned(lines, (True, False, True, False))


def comparison(one: Mapping[Phase, Sequence[str]], other: Mapping[Phase, Sequence[str]]) -> str:
    """Return a table that shows after which phases the modules of two cases differ.

    `one` and `other` map each compiler phase of their case to the lines of the module after this phase."""
    lines = [["phase", "", "", "lines", "with"]]
    others = {phase.name: text for phase, text in other.items()}
    for phase, text in one.items():
        beside = others.pop(phase.name, None)
        word = "missing" if beside is None else "same" if beside == text else "differs"
        counts = [str(len(text)), "" if beside is None else str(len(beside))]
        lines.append([str(phase.number), phase.name, word, *counts])
    lines += [["", name, "only with", "", str(len(text))] for name, text in others.items()]
    return aligned(lines, (True, False, False, True, True))


def first(one: Mapping[Phase, Sequence[str]], other: Mapping[Phase, Sequence[str]]) -> Phase | None:
    """Return the first phase after which the modules of two cases differ; None if they never differ.

    `one` and `other` map each compiler phase of their case to the lines of the module after this phase."""
    others = {phase.name: text for phase, text in other.items()}
    return next((phase for phase, text in one.items() if others.get(phase.name) != text), None)


def difference(one: Sequence[str], other: Sequence[str], names: tuple[str, str]) -> str:
    """Return the unified diff of two modules. Long lines are cut.

    Returns an empty text if the modules are equal. `names` are the names of the modules in the diff."""
    return "\n".join(_cut(line) for line in _unified(one, other, names))


def _unified(one: Sequence[str], other: Sequence[str], names: tuple[str, str]) -> Iterator[str]:
    # difflib is slow for long texts, so it is given only the part from the first to the last difference.
    equal = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    begin = max(0, equal - _CONTEXT)
    end = next(
        (i for i in range(min(len(one), len(other)) - equal) if one[-1 - i] != other[-1 - i]),
        min(len(one), len(other)) - equal,
    )
    end = max(0, end - _CONTEXT)
    parts = [text[begin : len(text) - end] for text in (one, other)]
    for line in difflib.unified_diff(parts[0], parts[1], *names, lineterm="", n=_CONTEXT):
        if (match := _HUNK.fullmatch(line)) is not None:
            line = f"@@ -{int(match[1]) + begin}{match[2]} +{int(match[3]) + begin}{match[4]} @@"
        yield line


def _cut(line: str) -> str:
    return line if len(line) <= _WIDTH else f"{line[:_WIDTH]}… ({len(line)} characters)"


def slowest(times: Sequence[PassTime]) -> str:
    """Return a table of the ten slowest compiler passes. `times` has all passes, the slowest first."""
    lines = [["pass", "time", "share", "executions"]]
    lines += [
        [each.name, units.seconds(each.duration_s), f"{each.share:.1%}", f"{each.executions:,}"]
        for each in times[:_SHOWN]
    ]
    return aligned(lines, (False, True, True, True))
