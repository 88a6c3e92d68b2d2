"""Write TOML entries that declare failing cases as known failures (docs/known-failures.md)."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from dispatchflow.cases.known_failures import WORD, KnownFailure, parse, version_of
from dispatchflow.errors import SpecError
from dispatchflow.reports.summary import VALUE
from dispatchflow.reports.verdicts import COUNTED, NUMBER, kind, naming

if TYPE_CHECKING:
    from dispatchflow.engine.state import CaseState

HEAD = "# Written by `doit known write=`"
"""The beginning of each file that `doit known write=` writes.

The command replaces only files that begin with this text."""

_REGRESSION = re.compile(r"regression: passed with \S+; ")
_REASON_LENGTH = 200

_Kind = tuple[str, str, str]
"""A kind of failure: the fields `toolchain`, `stage` and `message` of an entry.

One entry describes all cases that fail in the same way."""


def entries(
    failed: Sequence[CaseState], toolchain: str, old: Sequence[KnownFailure], selected: Sequence[CaseState]
) -> tuple[str, int]:
    """Return TOML text that lists known failures, and the number of cases that are kept from `old`.

    The text lists the cases in `failed`. A case in `old` is kept if `selected` has no new result for it."""
    # Older releases are not covered: if a case passed with a covered release, its failure is reported as a regression.
    bounds = _bounds(toolchain)
    now: dict[str, _Kind] = {}
    reasons = {_kind_of(entry): entry.reason for entry in old}
    for chain in failed:
        assert chain.failure is not None
        why = _REGRESSION.sub("", chain.failure.why)
        now[_exact(chain.case.name)] = found = (bounds, chain.failure.stage, pattern(why))
        # The reason is printed for all cases of the entry, so it has no values or numbers, which may differ.
        reasons.setdefault(found, kind(why)[:_REASON_LENGTH])
    states = {_exact(chain.case.name): chain for chain in selected}
    groups: dict[_Kind, dict[str, None]] = {}
    kept = 0
    for entry in old:  # first, so that entries and cases keep their order in the file
        for name in _names(entry):
            unknown = not _tried(states.get(name), entry.stage)
            kept += unknown
            if unknown or now.get(name) == _kind_of(entry):
                groups.setdefault(_kind_of(entry), {})[name] = None
    for name, found in now.items():
        groups.setdefault(found, {})[name] = None
    head = f"{HEAD} with IREE {toolchain}; a later `write=` to this file updates it."
    lines = [head, *(line for found, names in groups.items() for line in _entry(found, names, reasons[found]))]
    return "\n".join(lines) + "\n", kept


def _entry(common: _Kind, names: Iterable[str], reason: str) -> Iterator[str]:
    toolchain, stage, message = common
    yield f"\n[[{WORD}]]"
    yield "match.case = ["
    yield from (f"  {_string(name)}," for name in names)
    yield "]"
    if toolchain:
        yield f"toolchain = {_string(toolchain)}"
    yield f"stage = {_string(stage)}"
    yield f"message = {_string(message)}"
    yield f"reason = {_string(reason)}"


def _bounds(toolchain: str) -> str:
    """Return an entry's bounds on the compiler's release, such as `>=3.12.0`.

    Returns an empty text if `toolchain` is not a release number."""
    named = version_of(toolchain)
    return f">={'.'.join(map(str, named))}" if (2,) < named < (999,) else ""


def _kind_of(entry: KnownFailure) -> _Kind:
    return entry.toolchain, entry.stage, entry.message.pattern


def _names(entry: KnownFailure) -> tuple[str, ...]:
    ((_, names),) = entry.match
    return names


def _tried(chain: CaseState | None, stage: str) -> bool:
    return chain is not None and (chain.failure is not None or chain.made(stage))


def old_entries(text: str, path: PurePath) -> list[KnownFailure]:
    """Return the known failures in `text`, the content of a file that `doit known write=` wrote.

    Raises:
        SpecError: `text` has content that `doit known write=` never writes.
    """
    other = f"write={path} has something else in it"
    if not text.startswith(HEAD):
        raise SpecError(other, {"begins otherwise than": f"{HEAD} …"}, "Name a new file, specs/known.toml.")
    try:
        words = sorted(set(tomllib.loads(text)) - {WORD})
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"write={path} is not TOML", {"found": error}, "Correct or remove this file.") from error
    found = parse(text, path)
    # The text that `entries` returns would not keep these parts.
    words += [entry.place for entry in found if entry.some or [word for word, _ in entry.match] != ["case"]]
    if words:
        raise SpecError(other, {"found": words[0]}, "Move this to another file in specs/.")
    return found


def pattern(reason: str) -> str:
    """Return a regular expression that matches texts like `reason`.

    The texts may have other SSA values, types and numbers. If the text before the first SSA value or type is long
    enough to identify the error, the expression covers only this text."""
    text = naming(reason)
    parts = ([_escaped(each) for each in NUMBER.split(part)] for part in VALUE.split(text))
    return COUNTED.sub(r"\1s?\2 (is|are) wrong", ".*".join(r"[-+.,\w]+".join(part) for part in parts))


def _escaped(text: str) -> str:
    return re.sub(r"([\\.^$*+?{}\[\]|()])", r"\\\1", text)


def _exact(name: str) -> str:
    """Return a glob pattern that matches only the text `name`."""
    return re.sub(r"([*?\[])", r"[\1]", name)


def _string(text: str) -> str:
    # TOML does not allow the character DEL in a string; JSON does.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
