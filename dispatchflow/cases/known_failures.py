"""Define known failures: which cases fail, with which compiler releases, and how.

Cases with known failures run like any other case. The entries are in known_failures.toml and in specs.
docs/known-failures.md explains the entries."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, TypeAlias

from dispatchflow.errors import SpecError, suggestion, written
from dispatchflow.operations import DIMS, OPTIONS, Operation
from dispatchflow.stages import STAGES

if TYPE_CHECKING:
    from dispatchflow.cases.case import Case
    from dispatchflow.iree.targets import Target
    from dispatchflow.keys import Digest

WORD = "known_failure"
"""The name of the TOML tables that describe known failures."""
MODES = ("on", "strict", "off")
STATUS = "known failure"
"""The value of the column `status` if the case's failure is a known failure."""

_TABLE = Path(__file__).with_name("known_failures.toml")
_OWN = ("case", "operation", "dtype", "layout", "tuning", "target", "backend", "flags")
_FEATURES = "features"
_OF_RESULTS = ("oh", "ow")
MATCHED = (*_OWN, _FEATURES, *DIMS, *OPTIONS, *_OF_RESULTS)
"""The keys that are allowed in `match`, the conditions of an entry."""
_FIELDS = ("match", "toolchain", "stage", "message", "reason", "some")
_BOUND = re.compile(r"(>=|<=|>|<|==)\s*(\d+(?:\.\d+)*)")
_NO_MULTIPLE = re.compile(r"!%([1-9]\d*)")
_ORDERS = {">=": (0, 1), "<=": (-1, 0), ">": (1,), "<": (-1,), "==": (0,)}
_VERSION = re.compile(r"\d+(?:\.\d+)*")
_OLDEST, _NEWEST = (2,), (999,)

Version = tuple[int, ...]
Match = tuple[tuple[str, tuple[str, ...]], ...]
Features: TypeAlias = "Callable[[Target], Collection[str]]"
"""A function that returns the features of a target's CPU, such as `avx512f`; none for a GPU."""


def no_features(target: Target) -> Collection[str]:
    return ()


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """An entry (a table `[[known_failure]]`) of known_failures.toml or of a spec."""

    match: Match
    """(key, patterns) of each condition: the case's value for the key must match one of the patterns."""
    toolchain: str
    """Bounds on the compiler's release, such as `>=3.11, <3.14`; all must hold."""
    stage: str
    message: re.Pattern[str]
    """A pattern that is searched for in the failure's reason and log."""
    reason: str
    some: bool
    """True if only some of the matching cases fail. A matching case that passes is then not reported."""
    place: str
    """The file, line and index of the entry: `specs/a.toml:3, known_failure[0]`."""

    def holds_for(self, version: Version) -> bool:
        """Return whether the entry is about the compiler release `version`."""
        return _within(self.toolchain, version)

    def fits(self, stage: str, reason: str, log: Callable[[], str]) -> bool:
        """Return whether the entry describes a failure of `stage` with this reason and log.

        `log` returns the tool's output. It is called only if the entry's message is not found in `reason`."""
        return stage == self.stage and bool(self.message.search(reason) or self.message.search(log()))

    @property
    def matched(self) -> str:
        """The conditions as text: `operation=matmul target=cuda-*`."""
        return " ".join(f"{word}={','.join(patterns)}" for word, patterns in self.match)


def version_of(text: str) -> Version:
    """Parse `3.12.0rc1` to (3, 12, 0).

    A date (`20240828`) counts as the oldest version, and `main` as the newest."""
    match = _VERSION.match(text)
    if match is None:
        return _NEWEST
    numbers = tuple(map(int, match[0].split(".")))
    return _OLDEST if numbers[0] > 9999 else numbers


def _within(bounds: str, own: Version) -> bool:
    """Return whether a version is within bounds such as `>=3.11, <3.14`; all of them must hold.

    The version is cut to the length of the bound. For example, 3.14.1 counts as 3.14, which is not within `<3.14`."""
    for relation, text in _BOUND.findall(bounds):
        bound = version_of(text)
        order = (own[: len(bound)] > bound) - (own[: len(bound)] < bound)
        if order not in _ORDERS[relation]:
            return False
    return True


def _fits_all(case: Case, match: Iterable[tuple[str, Sequence[str]]], features: Features) -> bool:
    def fits(word: str, patterns: Sequence[str]) -> bool:
        if word != _FEATURES:
            return _fits(case, word, patterns)
        return any(_matches(feature, pattern) for feature in features(case.target) for pattern in patterns)

    return all(fits(word, patterns) for word, patterns in match)


def _fits(case: Case, word: str, patterns: Sequence[str]) -> bool:
    value = _value_of(case, word)
    return value is not None and any(_matches(value, pattern) for pattern in patterns)


def _matches(value: str, pattern: str) -> bool:
    """Return whether a value matches a pattern, such as `f*`, `>128`, or `!%4` (not a multiple of 4)."""
    if pattern[0] in "<>" and value.isdecimal():
        return _within(pattern, (int(value),))
    if (divisor := _NO_MULTIPLE.fullmatch(pattern)) and value.isdecimal():
        return int(value) % int(divisor[1]) != 0
    return fnmatchcase(value, pattern)


def _value_of(case: Case, word: str) -> str | None:
    program = case.operation
    match word:
        case "case":
            return case.name
        case "operation":
            return program.name
        case "dtype":
            return program.element_types
        case "layout":
            return program.layout
        case "tuning":
            return case.tuning.name
        case "target":
            return case.target.name
        case "backend":
            return case.target.backend
        case "flags":
            return " ".join(case.flags)
    if word in program.dims:
        return str(program.sizes[program.dims.index(word)])
    if isinstance(program, Operation) and word in _OF_RESULTS:
        return next((str(loop.size) for loop in program.loops if loop.dim == word), None)
    if isinstance(program, Operation) and word in program.options:
        return str(program.option(word))
    return None


_COARSE = frozenset(("operation", "target", "backend", "tuning", _FEATURES))
"""The keys of `match` whose values depend only on a case's operation, target and tuning."""


class KnownFailures:
    """The known failures of one compiler release.

    `log` is a function that takes the digest of a failed tool's output and returns the output."""

    def __init__(
        self,
        entries: Iterable[KnownFailure],
        version: str,
        log: Callable[[Digest], str],
        features: Features = no_features,
    ) -> None:
        self._given, self._version, self._log, self._features = entries, version_of(version), log, features
        self._near: dict[tuple[str, ...], tuple[tuple[KnownFailure, Match], ...]] = {}

    @cached_property
    def entries(self) -> tuple[KnownFailure, ...]:
        return tuple(entry for entry in self._given if entry.holds_for(self._version))

    def covering(self, case: Case) -> list[KnownFailure]:
        """Return the known failures whose conditions the case meets."""
        return list(self._covering(case, lambda entry: True))

    def _covering(self, case: Case, asked: Callable[[KnownFailure], bool]) -> Iterator[KnownFailure]:
        if case.library is not None:
            return  # entries are about the compiler
        for entry, rest in self._of_kind(case):
            if asked(entry) and (not rest or _fits_all(case, rest, self._features)):
                yield entry

    def _of_kind(self, case: Case) -> tuple[tuple[KnownFailure, Match], ...]:
        """Return the known failures that fit the case's operation, target and tuning.

        Each known failure comes with its other conditions, such as those on sizes. The caller checks these."""
        kind = case.operation.name, case.target.name, case.tuning.name
        if (found := self._near.get(kind)) is None:
            found = tuple(
                (entry, tuple(part for part in entry.match if part[0] not in _COARSE))
                for entry in self.entries
                if _fits_all(case, [part for part in entry.match if part[0] in _COARSE], self._features)
            )
            self._near[kind] = found
        return found

    def failing(self, case: Case, stage: str, reason: str, log: Digest | None) -> KnownFailure | None:
        """Return the entry that describes how `case` failed in `stage`; None if the failure is not known.

        `reason` is the message of the failure, and `log` is the digest of the tool's output."""
        read: list[str] = []

        def text() -> str:
            if not read:
                read.append(self._log(log) if log else "")
            return read[0]

        return next((entry for entry in self.covering(case) if entry.fits(stage, reason, text)), None)

    def passing(self, case: Case, made: Callable[[str], bool]) -> KnownFailure | None:
        """Return a known failure that was expected of `case` but did not occur, or None.

        `made(stage)` returns whether the case passed the stage."""
        return next(self._covering(case, lambda entry: not entry.some and made(entry.stage)), None)


@cache
def shipped() -> tuple[KnownFailure, ...]:
    """Return the known failures that come with dispatchflow."""
    return tuple(parse(_TABLE.read_text(encoding="utf-8"), PurePath(_TABLE.name)))


def parse(text: str, path: PurePath) -> list[KnownFailure]:
    """Parse the `[[known_failure]]` tables of a TOML file.

    Text that is not TOML yields no entries. Reporting this error is left to the parser of sweeps.

    Raises:
        SpecError: an entry is wrong."""
    if WORD not in text:
        return []
    try:
        tables = tomllib.loads(text).get(WORD, [])
    except (tomllib.TOMLDecodeError, RecursionError):
        return []
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise SpecError(f"'{WORD}' is a list of tables", {"spec": path}, f"Write [[{WORD}]], in two brackets.")
    begins = re.compile(rf"\s*\[\[\s*{WORD}\s*\]\]")
    lines = [number for number, line in enumerate(text.splitlines(), 1) if begins.match(line)]
    places = [f"{path}:{lines[i]}" if i < len(lines) else str(path) for i in range(len(tables))]
    return [_entry(table, f"{place}, {WORD}[{i}]") for i, (table, place) in enumerate(zip(tables, places, strict=True))]


def _entry(table: Mapping[str, Any], place: str) -> KnownFailure:
    for word in table:
        if word not in _FIELDS:
            facts = {"spec": place, "allowed": ", ".join(_FIELDS)}
            raise SpecError(f"unknown word '{word}'", facts, suggestion(word, _FIELDS))
    for word in ("match", "stage", "message", "reason"):
        if not table.get(word):
            hint = {"match": 'match = "matmul_*@cuda-sm_80", or a table of words.', "stage": 'stage = "compile".'}
            raise SpecError(f"a known failure needs '{word}'", {"spec": place}, hint.get(word, ""))
    for word, kind in (("toolchain", str), ("stage", str), ("message", str), ("reason", str), ("some", bool)):
        if type(table.get(word, kind())) is not kind:
            facts = {"spec": f"{place}.{word}", "found": written(table[word])}
            raise SpecError("wrong type", {**facts, "allowed": "true or false" if kind is bool else "a string"})
    if table["stage"] not in STAGES:
        facts = {"spec": f"{place}.stage", "known": ", ".join(STAGES)}
        raise SpecError(f"unknown stage '{table['stage']}'", facts, suggestion(table["stage"], STAGES))
    toolchain = table.get("toolchain", "")
    if not all(_BOUND.fullmatch(bound.strip()) for bound in toolchain.split(",") if toolchain):
        facts = {"spec": f"{place}.toolchain", "found": toolchain}
        raise SpecError("not a range of releases", facts, 'Write toolchain = ">=3.11", or ">=3.11, <3.14".')
    try:
        message = re.compile(table["message"])
    except re.error as error:
        facts = {"spec": f"{place}.message", "found": str(error)}
        raise SpecError(
            "not a regular expression", facts, "Write a \\ before ( [ . * that stand for themselves."
        ) from None
    some = table.get("some", False)
    return KnownFailure(_match(table["match"], place), toolchain, table["stage"], message, table["reason"], some, place)


def _match(given: Any, place: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    words = given if isinstance(given, dict) else {"case": given}
    found = []
    for word, value in words.items():
        if word not in MATCHED:
            facts = {"spec": f"{place}.match", "allowed": ", ".join(MATCHED)}
            raise SpecError(f"unknown word '{word}'", facts, suggestion(word, MATCHED))
        patterns = value if isinstance(value, list) else [value]
        if not patterns or not all(type(pattern) in (str, int) for pattern in patterns):
            facts = {"spec": f"{place}.match.{word}", "found": written(value)}
            raise SpecError("wrong type", {**facts, "allowed": "a pattern, or a list of patterns"})
        found.append((word, tuple(map(str, patterns))))
    return tuple(found)
