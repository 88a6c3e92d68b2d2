"""The contents of the store by kind, and which objects and records a clean removes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from dispatchflow.keys import Digest, Key

UNREFERENCED = "unreferenced"
_KINDS = {"module": "modules", "vmfb": "compiled modules", "configurations": "configurations", "log": "logs"}
_DATA = {"inputs": "inputs", "expected": "expected results"}
_DAY_S = 86400


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record that names objects."""

    key: Key
    stage: str
    at: float
    """When it was recorded, in seconds since 1970."""
    outputs: Mapping[str, Digest]
    made_from: str | None = None
    """The module, or the key of the compile, that it was made from; None if its ingredients have neither."""
    version: str | int | None = None
    """The version of the code that made it, or the digest of its text; None if it has neither."""


@dataclass(frozen=True, slots=True)
class Removal:
    """The records and objects that a clean removes."""

    keys: tuple[Key, ...] = ()
    """The records that name one of the `objects`."""
    objects: tuple[Digest, ...] = ()


def kinds(sizes: Mapping[Digest, int], held: Iterable[StoredRecord]) -> dict[Digest, str]:
    """Return the kind of each object, by the first record that names it."""
    found: dict[Digest, str] = {}
    for record in held:
        for name, digest in record.outputs.items():
            found.setdefault(digest, _kind(record.stage, name))
    return {digest: found.get(digest, UNREFERENCED) for digest in sizes}


def _kind(stage: str, output: str) -> str:
    wrong = "wrong results" if output.startswith("got_") else f"{stage} {output}"
    return _DATA.get(stage) or _KINDS.get(output, wrong)


def tally(sizes: Mapping[Digest, int], kind_of: Mapping[Digest, str]) -> dict[str, tuple[int, int]]:
    """Return kind → (number of objects, bytes), the largest first, unreferenced ones last."""
    number: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for digest, size in sizes.items():
        number[kind_of[digest]] += 1
        total[kind_of[digest]] += size
    order = sorted(number, key=lambda kind: (kind == UNREFERENCED, -total[kind], kind))
    return {kind: (number[kind], total[kind]) for kind in order}


def made_since(held: Iterable[StoredRecord], days: int, now: float) -> set[Key]:
    """Return the keys of the records from the last `days` days.

    The last use of a record is unknown, because an idle run writes nothing."""
    return {record.key for record in held if now - record.at <= days * _DAY_S}


def removal(
    sizes: Mapping[Digest, int],
    held: Sequence[StoredRecord],
    keep: Set[Key] | None = None,
    limit_bytes: int | None = None,
) -> Removal:
    """Return the objects and records that a clean removes.

    Objects that no record names are always removed. If `keep` or `limit_bytes` is given, objects that are named only
    by records with keys outside of `keep` are removed too: all of them if there is no limit, otherwise the oldest ones,
    until all objects together have at most `limit_bytes`.

    An object is as old as the newest record that names it. A record outside of `keep` is removed with the first of its
    objects; until then it stays, because it takes no space and saves the work."""
    records: dict[Digest, list[StoredRecord]] = {}
    for record in held:
        for digest in set(record.outputs.values()):
            records.setdefault(digest, []).append(record)
    gone = dict.fromkeys(digest for digest in sizes if digest not in records)
    if keep is None and limit_bytes is None:
        return Removal(objects=tuple(gone))
    left_bytes = sum(size for digest, size in sizes.items() if digest not in gone)
    protected = {digest for record in held if record.key in (keep or ()) for digest in record.outputs.values()}
    candidates = [digest for digest in records if digest in sizes and digest not in protected]
    naming = {digest: len(found) for digest, found in records.items()}
    keys: dict[Key, None] = {}
    for oldest in sorted(candidates, key=lambda digest: (max(record.at for record in records[digest]), digest)):
        if limit_bytes is not None and left_bytes <= limit_bytes:
            break
        for record in records[oldest]:
            if record.key in keys:
                continue
            keys[record.key] = None
            for digest in set(record.outputs.values()):
                naming[digest] -= 1
                if not naming[digest] and digest in sizes:
                    gone[digest] = None
                    left_bytes -= sizes[digest]
    return Removal(tuple(keys), tuple(gone))
