"""Format the reports of `doit store`, `doit store check` and `doit store clean`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dispatchflow import units
from dispatchflow.reports.table import aligned
from dispatchflow.store.retention import UNREFERENCED

Tally = Mapping[str, tuple[int, int]]
"""A mapping from a kind of files to (number of files, their total size in bytes)."""

_MAX_SHOWN = 20
_MORE = "keep=30, keep=referenced and limit=2GiB remove more; see doit variables"


def overview(
    objects: Tally, rest: Tally, cases: int, cases_bytes: int, everyones: tuple[Path, int] | None = None
) -> str:
    """Return the text that `doit store` prints: the number and size of the files of each kind.

    Args:
        objects: the store's objects, which are files that are named by their digest.
        rest: the other files in the store.
        cases_bytes: the total size of objects, records and results.
        everyones: the folder that all projects of the user share, and its size in bytes.
    """
    parts = {**objects, **rest}
    total_bytes = sum(size for _, size in parts.values())
    lines = [_table(parts), f"{units.size(total_bytes)} in all"]
    if cases:
        lines[-1] += f"; {units.count(cases, 'case')}, {units.size(cases_bytes / cases)} each without toolchains"
    if UNREFERENCED in objects:
        lines.append("doit store clean removes what no record names")
    if everyones:
        lines.append(f"for all your projects: {everyones[0]}, {units.size(everyones[1])}; no clean removes it")
    return "\n".join(lines)


def _table(parts: Tally) -> str:
    cells = [[what, f"{number:,}", units.size(size)] for what, (number, size) in parts.items()]
    return aligned([["what", "number", "size"], *cells], [False, True, True])


@dataclass
class Findings:
    """The findings of `doit store check`: how much was checked, and one line in `wrong` for each problem."""

    parts: int = 0
    """The number of Parquet files that were read, to compare them with the records."""
    objects: int = 0
    objects_read: int = 0
    compiles: int = 0
    compiles_again: int = 0
    """The number of compiles that were run again, to compare their outputs."""
    not_again: Counter[str] = field(default_factory=Counter)
    """The number of compiles that were not run again, for each reason."""
    wrong: list[str] = field(default_factory=list)


def checked(found: Findings) -> str:
    lines = [
        f"results   {units.count(found.parts, 'part')} read and compared with the records",
        f"objects   {found.objects_read:,} of {found.objects:,} read and compared with their digests",
        f"compiles  {found.compiles_again:,} of {found.compiles:,} run again and compared",
        *(
            f"          {count:,} {'was' if count == 1 else 'were'} not run again: {reason}"
            for reason, count in found.not_again.most_common()
        ),
        *(f"WRONG     {line}" for line in found.wrong[:_MAX_SHOWN]),
    ]
    if len(found.wrong) > _MAX_SHOWN:
        lines.append(f"          and {len(found.wrong) - _MAX_SHOWN:,} more")
    return "\n".join([*lines, f"{len(found.wrong):,} wrong" if found.wrong else "all sound"])


def cleaned(
    gone: Tally, records: int, left: tuple[int, int], limit_bytes: int | None, dry: bool, unlimited: bool
) -> str:
    """Return the report of `doit store clean`.

    Args:
        gone: the removed objects.
        records: the number of removed records.
        left: (number, bytes) of the objects that stay.
        limit_bytes: the value of `limit=`.
        dry: whether the removal was only simulated.
        unlimited: whether neither `keep=` nor `limit=` was given.
    """
    stay = f"{units.count(left[0], 'object')}, {units.size(left[1])}, stay"
    lines = [f"nothing to remove; {stay}"]
    if gone:
        number, size = (sum(column) for column in zip(*gone.values(), strict=True))
        removed = f"{units.count(number, 'object')}, {units.size(size)}, and {units.count(records, 'record')}"
        lines = [_table(gone), f"{'would remove' if dry else 'removed'} {removed}; {stay}"]
    if limit_bytes is not None and left[1] > limit_bytes:
        lines.append(f"note: what keep= names takes more than {units.size(limit_bytes)}")
    return "\n".join([*lines, _MORE] if unlimited else lines)
