"""Count the store's objects by kind, and decide what `doit store clean` removes."""

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
    """A record of an action that has at least one output. Each output is an object, a file of the store."""

    key: Key
    stage: str
    at: float
    """The time of recording, in seconds since 1970."""
    outputs: Mapping[str, Digest]
    made_from: str | None = None
    """The digest of the module, or the key of the compile, from which the outputs were made.

    None if the record has neither."""
    version: str | int | None = None
    """The version of dispatchflow's code, or a digest of its source files. None if neither is recorded."""


@dataclass(frozen=True, slots=True)
class Removal:
    """The records and objects that `doit store clean` removes."""

    keys: tuple[Key, ...] = ()
    """The keys of the records to remove. Each record refers to one of `objects` or to a missing object."""
    objects: tuple[Digest, ...] = ()


def kinds(sizes: Mapping[Digest, int], held: Iterable[StoredRecord]) -> dict[Digest, str]:
    """Return the kind of each object in `sizes`, such as `logs`.

    The kind is `unreferenced` if no record in `held` refers to the object."""
    found: dict[Digest, str] = {}
    for record in held:
        for name, digest in record.outputs.items():
            found.setdefault(digest, _kind(record.stage, name))
    return {digest: found.get(digest, UNREFERENCED) for digest in sizes}


def _kind(stage: str, output: str) -> str:
    wrong = "wrong results" if output.startswith("got_") else f"{stage} {output}"
    return _DATA.get(stage) or _KINDS.get(output, wrong)


def tally(sizes: Mapping[Digest, int], kind_of: Mapping[Digest, str]) -> dict[str, tuple[int, int]]:
    """Return a dict from each kind of object to (number of objects, their total size in bytes).

    The kind with the largest total size is first, and the kind `unreferenced` is last."""
    number: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for digest, size in sizes.items():
        number[kind_of[digest]] += 1
        total[kind_of[digest]] += size
    order = sorted(number, key=lambda kind: (kind == UNREFERENCED, -total[kind], kind))
    return {kind: (number[kind], total[kind]) for kind in order}


def made_since(held: Iterable[StoredRecord], days: int, now: float) -> set[Key]:
    """Return the keys of the records that were made in the last `days` days before `now`.

    `now` is in seconds since 1970."""
    return {record.key for record in held if now - record.at <= days * _DAY_S}


def removal(
    sizes: Mapping[Digest, int],
    held: Sequence[StoredRecord],
    keep: Set[Key] | None = None,
    limit_bytes: int | None = None,
) -> Removal:
    """Choose the objects (files) and records that `doit store clean` removes from a store.

    Objects without a record, and records with a missing object, are always removed. If neither `keep` nor
    `limit_bytes` is given, nothing else is removed.

    Args:
        sizes: the size in bytes of each object.
        held: all records that refer to objects.
        keep: the keys of records whose objects stay. If only `keep` is given, all other objects are removed.
        limit_bytes: the oldest objects are removed until the total size in bytes is at most this value."""
    keys = dict.fromkeys(record.key for record in held if not sizes.keys() >= set(record.outputs.values()))
    held = [record for record in held if record.key not in keys]
    records: dict[Digest, list[StoredRecord]] = {}
    for record in held:
        for digest in set(record.outputs.values()):
            records.setdefault(digest, []).append(record)
    gone = dict.fromkeys(digest for digest in sizes if digest not in records)
    if keep is None and limit_bytes is None:
        return Removal(tuple(keys), tuple(gone))
    left_bytes = sum(size for digest, size in sizes.items() if digest not in gone)
    protected = {digest for record in held if record.key in (keep or ()) for digest in record.outputs.values()}
    candidates = [digest for digest in records if digest not in protected]
    naming = {digest: len(found) for digest, found in records.items()}
    for oldest in sorted(candidates, key=lambda digest: (max(record.at for record in records[digest]), digest)):
        if limit_bytes is not None and left_bytes <= limit_bytes:
            break
        for record in records[oldest]:
            if record.key in keys:
                continue
            keys[record.key] = None
            for digest in set(record.outputs.values()):
                naming[digest] -= 1
                if not naming[digest]:
                    gone[digest] = None
                    left_bytes -= sizes[digest]
    return Removal(tuple(keys), tuple(gone))
