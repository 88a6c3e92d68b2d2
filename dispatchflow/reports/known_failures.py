"""Write entries of known failures, as TOML, for cases that fail now (docs/known-failures.md)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dispatchflow.cases.known_failures import WORD, version_of
from dispatchflow.reports.summary import VALUE
from dispatchflow.reports.verdicts import COUNTED, NUMBER, kind, naming

if TYPE_CHECKING:
    from dispatchflow.engine.state import CaseState

HEAD = "# Written by `doit known write=`"
"""The first words of a file that `doit known write=` may replace."""

_REGRESSION = re.compile(r"regression: passed with \S+; ")
_REASON_LENGTH = 200


def entries(failed: Sequence[CaseState], toolchain: str) -> str:
    """Return a TOML text with an entry for each kind of failure; an entry lists the cases that have it.

    `failed` are cases that failed with the release `toolchain`, such as `3.12.0`. An entry covers this and later
    releases, but not older ones: if a case passed with a covered release, its failure is reported as a regression.
    If `toolchain` is a date, or another text that is no version, an entry covers all releases."""
    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for chain in failed:
        assert chain.failure is not None
        reason = _REGRESSION.sub("", chain.failure.why)
        groups.setdefault((chain.failure.stage, pattern(reason)), []).append((chain.case.name, reason))
    head = f"{HEAD} with IREE {toolchain}; a later `write=` to this file replaces it."
    return (
        "\n".join([head, *(line for found, cases in groups.items() for line in _entry(*found, cases, toolchain))])
        + "\n"
    )


def _entry(stage: str, message: str, cases: Sequence[tuple[str, str]], toolchain: str) -> Iterator[str]:
    named = version_of(toolchain)
    yield f"\n[[{WORD}]]"
    yield "match.case = ["
    yield from (f"  {_string(_exact(name))}," for name, _ in cases)
    yield "]"
    if (2,) < named < (999,):  # a version that is a date or no number gives no bound
        yield f'toolchain = ">={".".join(map(str, named))}"'
    yield f"stage = {_string(stage)}"
    yield f"message = {_string(message)}"
    # The reason is printed for all cases of the entry, so it has no values or numbers, which may differ between cases.
    yield f"reason = {_string(kind(cases[0][1])[:_REASON_LENGTH])}"


def pattern(reason: str) -> str:
    """Return a regular expression that matches a reason, whatever SSA values and numbers are in it.

    The pattern of one wrong element matches several wrong elements too, and the reverse. If the text before the first
    SSA value is long enough to identify the error, the expression ends there."""
    text = naming(reason)
    parts = ([_escaped(each) for each in NUMBER.split(part)] for part in VALUE.split(text))
    return COUNTED.sub(r"\1s?\2 (is|are) wrong", ".*".join(r"[-+.,\w]+".join(part) for part in parts))


def _escaped(text: str) -> str:
    return re.sub(r"([\\.^$*+?{}\[\]|()])", r"\\\1", text)


def _exact(name: str) -> str:
    """Return a glob pattern that matches only this name."""
    return re.sub(r"([*?\[])", r"[\1]", name)


def _string(text: str) -> str:
    """Return a text as a TOML string, in quotes."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
