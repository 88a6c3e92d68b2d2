"""List the verdicts of cases as rows, and count them in a table.

A verdict covers the stages up to `verify`. It is read from the store's records, because the Parquet files have
rows only for cases that were selected for measurement."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dispatchflow.cases.module import Module
from dispatchflow.reports.summary import ALL, VALUE
from dispatchflow.reports.table import aligned
from dispatchflow.results.status import reason_of, verification_of

if TYPE_CHECKING:
    from dispatchflow.engine.state import CaseState

VERDICTS = (
    "right",
    "mistrusted",
    "not compared",
    "wrong",
    "run failed",
    "not compiled",
    "no device",
    "not verified",
    "not tried",
)
COLUMNS = ("case", "verdict", "verification", "reason", "known_failure", "toolchain_version", "operation", "tags")

_MANY = 20
_SHOWN_REASONS, _REASON_LENGTH = 5, 90
_ENOUGH = 40  # a message with this number of characters is distinctive without the text after it
_QUOTED = re.compile(r'(?<=: )"[\w.]+"')  # the op in generic form, which a diagnostic shows after its message
_DETAIL = re.compile(r"; worst at |: got ")
NUMBER = re.compile(r"(?<![\w.'@])[-+]?(?:\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?|inf|nan)(?![\w'])")

COUNTED = re.compile(r"\b(element|byte)s?\b(.*?) (?:is|are) wrong\b")
"""A pattern for messages that count wrong elements or bytes, in the singular or plural."""


def verdict(chain: CaseState) -> str:
    """Return the verdict on a case, which is one of `VERDICTS`, such as `not compiled`.

    The verification's verdicts `equal` and `within bound` become `right`, and `different` becomes `wrong`."""
    failed, verified = chain.failure, chain["verify"]
    if failed is not None and failed.stage in ("emit", "compile"):
        return "not compiled"
    found = verification_of(chain)
    if found == "different":
        return "wrong"
    if verified.state == "failed":
        return "run failed"
    if verified.record is None or verified.state == "off":
        return {"absent": "no device", "off": "not verified"}.get(verified.state, "not tried")
    return found if found in ("mistrusted", "not compared", "not verified") else "right"


def reason(chain: CaseState) -> str | None:
    """Return the reason of a case's verdict in one line; None if the verdict has no reason."""
    failed = chain.failure
    said = failed.why if failed is not None else reason_of(chain, "not measured", None)
    return " ".join(said.split()) if said else None


def rows(chains: Sequence[CaseState], toolchain: str, tags: Mapping[Any, Sequence[str]]) -> list[dict[str, Any]]:
    """Return one row for each case, with the columns `COLUMNS`.

    `toolchain` is the toolchain's version. `tags` maps each case to its tags."""
    return [
        {
            "case": chain.case.name,
            "verdict": verdict(chain),
            "verification": verification_of(chain),
            "reason": reason(chain),
            "known_failure": chain.known.reason if chain.known else None,
            "toolchain_version": toolchain,
            "operation": chain.case.operation.name,
            "tags": list(tags.get(chain.case, ())),
        }
        for chain in chains
    ]


def before_last_line(text: str, chains: Sequence[CaseState]) -> str:
    """Return `text` with a table inserted before its last line.

    The table has the verdicts on cases of users' modules. If there are few such cases, or if all of them are right,
    `text` is returned unchanged."""
    # Cases of operations are not counted, because each verdict would have to be read from its record.
    of_modules = [chain for chain in chains if type(chain.case.operation) is Module]
    if len(of_modules) <= _MANY or not (lines := table(of_modules)):
        return text
    head, newline, last = text.rpartition("\n")
    return f"{head}{newline}{lines}\n{last}"


def table(chains: Sequence[CaseState]) -> str:
    """Return a table that counts the cases with each verdict and reason.

    The less frequent reasons of a verdict share a row. Returns an empty text if all cases are right."""
    judged = [(verdict(chain), kind(reason(chain) or ""), chain) for chain in chains]
    if all(word == "right" for word, *_ in judged):
        return ""
    return aligned([["verdict", "cases", "reason", "example"], *_lines(judged)], [False, True, False, False])


def _lines(judged: Sequence[tuple[str, str, CaseState]]) -> Iterator[list[str]]:
    for word in VERDICTS:
        members = [(why, chain) for found, why, chain in judged if found == word]
        if not members:
            continue
        if word == "right":
            yield [word, f"{len(members):,}", "", members[0][1].case.name]
            continue
        kinds = Counter(why for why, _ in members).most_common()
        for why, n in kinds[:_SHOWN_REASONS]:
            example = next(chain.case.name for found, chain in members if found == why)
            yield [word, f"{n:,}", why if len(why) < _REASON_LENGTH else f"{why[:_REASON_LENGTH]}…", example]
        if rest := kinds[_SHOWN_REASONS:]:
            yield [word, f"{sum(n for _, n in rest):,}", f"{len(rest)} other reasons; {ALL}", ""]


def kind(reason: str) -> str:
    """Return a reason without SSA values and types, and with `N` for each number.

    Failures with the same cause then have equal texts."""
    # A single wrong element has the plural too: `N elements of result N are wrong`.
    text = " ".join(NUMBER.sub("N", VALUE.sub("", naming(reason))).split())
    return COUNTED.sub(r"\1s\2 are wrong", text)


def naming(reason: str) -> str:
    """Return the first part of `reason`, which identifies the error."""
    # The part ends before the first SSA value or type, unless fewer than `_ENOUGH` characters would be left.
    text = _DETAIL.split(reason.partition("\n")[0].rstrip())[0]
    value = VALUE.search(text) or _QUOTED.search(text)
    return text[: value.start()].rstrip() if value and value.start() >= _ENOUGH else text
