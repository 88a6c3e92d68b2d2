"""Build the rows of cases, record them in the store's database, and write them as Parquet.

Rows are recorded before their Parquet file is written. If a run is killed before the file is written, the next run
writes the file."""

from __future__ import annotations

import logging
import platform
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import count
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from typing import Protocol as Shape

from dispatchflow.cases.case import Case
from dispatchflow.cases.module import Module
from dispatchflow.engine.state import CaseState
from dispatchflow.errors import DispatchflowError, raised
from dispatchflow.iree.toolchain import Toolchain
from dispatchflow.keys import digest_file, digest_of
from dispatchflow.measurement import calibration
from dispatchflow.measurement.ceilings import Ceilings
from dispatchflow.results import parquet
from dispatchflow.results.parquet import CASES, Table
from dispatchflow.results.roofline import Roofline
from dispatchflow.results.rows import Row, RowContext, file_of, row_of
from dispatchflow.store.store import Store
from dispatchflow.timing.protocols import Protocol
from dispatchflow.tools import machine

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)


class Recorded(Shape):
    """A row of any table. Rows with the same content have the same digest `identity`."""

    @property
    def identity(self) -> str: ...

    @property
    def cells(self) -> Mapping[str, Any]: ...


def rows_of(
    chains: Sequence[CaseState],
    toolchain: Toolchain,
    protocol: Protocol,
    run: str,
    tags: Mapping[Case, Sequence[str]],
    ceilings: Ceilings,
    noisy_above: Callable[[Case], float],
) -> list[Row]:
    """Return one row for each case, computed from the case's current state.

    `run` is the name of this run. `ceilings` has the machine's highest flops per s and bytes per s. The uncertainty of
    a median is half the width of its confidence interval, divided by the median. A row is noisy if this uncertainty is
    larger than `noisy_above(case)`."""
    around = RowContext(toolchain, platform.node(), machine.cpu().model, protocol.id, run, folder=str(Path.cwd()))
    now = time.time()
    known: dict[tuple[Any, ...], Roofline] = {}

    def bounds_of(chain: CaseState) -> Roofline:
        case = chain.case
        noisy = noisy_above(case)
        place = case.shape_name, case.target.name, chain.device.threads, case.cache, noisy
        if place not in known:
            found = ceilings.of(case, chain.device)
            known[place] = Roofline.of(case.operation, found, calibration.MARGIN, noisy)
        return known[place]

    def row(chain: CaseState, bounds: Roofline) -> dict[str, Any]:
        return row_of(chain, tags[chain.case], bounds, around, now)

    return [Row(chain, bounds_of(chain), row) for chain in chains]


def publish(store: Store, run: str, protocol: Protocol, rows: Sequence[Row]) -> DispatchflowError | None:
    """Record and write each row that differs from the newest recorded row of the same case and protocol.

    A row is left out if one of its cells does not fit the column's type. In this case an error is returned."""
    return append(store, run, {name_of(row.chain, protocol): row for row in rows}, CASES)


def append(store: Store, run: str, named: Mapping[str, Recorded], table: Table) -> DispatchflowError | None:
    """Add to a table each row in `named` that differs from the table's newest row of the same name.

    Missing or truncated Parquet files of the table are written again. A row with a cell of the wrong type is left
    out, and an error is returned."""
    records = store.records
    published = records.newest_identities(named)
    new = {name: row for name, row in named.items() if published.get(name) != row.identity}
    # Rows that do not fit are not recorded: they would count as published, so that no run after a fix publishes them.
    refused = [new.pop(name) for name in [*new] if parquet.mistyped_columns(new[name].cells, table)]
    # Rows are assigned to a part before it is written, so that the next run writes the part if this one is killed.
    part = _unused_part_name(table.prefix + run, records.parts())
    if new:
        records.add_rows({name: (row.identity, row.cells) for name, row in new.items()}, run, part)
    if table is CASES:
        records.assign_rows(part)  # earlier versions recorded cases' rows before they had a part
    for part in parts_of(store, table):
        path = store.root / table.folder / part
        if not parquet.is_complete(path):
            rows_of_part, unfit = parquet.drop_mistyped_cells(records.rows_of(table.prefix + part), table)
            if unfit:
                _log.warning("%s: cells of the wrong type are left out: %s", part, ", ".join(unfit))
            with store.scratch() as scratch, store.writing():
                parquet.write_part(scratch / part, rows_of_part, table)
                # The digest is recorded before the rename: of a part without a digest, only the rows can be checked.
                records.remember(_digest_of_part(table, part), digest_file(scratch / part))
                path.parent.mkdir(exist_ok=True)
                (scratch / part).rename(path)
    return _refusal(refused, table) if refused else None


def parts_of(store: Store, table: Table) -> list[str]:
    """Return the names of the Parquet files that a table has according to the store's records."""
    folder, names = table.prefix.rstrip("/"), map(PurePosixPath, store.records.parts())
    return [name.name for name in names if str(name.parent) == (folder or ".")]


def damage(store: Store, part: Path, found: pa.Table, table: Table = CASES) -> str | None:
    """Return how the Parquet file `part` differs from the store's records; None if it does not differ.

    `found` has the rows that were read from the file. If these rows are as recorded, the file's digest is
    compared with the recorded digest."""
    if (other := parquet.difference(found, store.records.rows_of(table.prefix + part.name), table)) is not None:
        return other
    # A changed byte that leaves the rows as they are may still disturb other programs.
    written = store.records.remembered(_digest_of_part(table, part.name))
    if written is None or digest_file(part) == written:
        return None
    return "its bytes differ from those that were written, although its rows do not"


def _digest_of_part(table: Table, name: str) -> str:
    return f"part:{table.prefix}{name}"


def name_of(chain: CaseState, protocol: Protocol) -> str:
    """Return the name under which the store's records keep the newest row of a case."""
    # Two projects may share a store, so the name of a module's row has a digest of the file's path.
    program = chain.case.operation
    file = f" {digest_of(str(file_of(program, str(Path.cwd()))).encode())}" if type(program) is Module else ""
    return f"{chain.case.name} {protocol.id}{file}"


def _unused_part_name(run: str, parts: Collection[str]) -> str:
    names = (f"{run}{f'-{number}' if number > 1 else ''}.parquet" for number in count(1))
    return next(name for name in names if name not in parts)


def _refusal(refused: Sequence[Recorded], table: Table) -> DispatchflowError:
    cells = refused[0].cells
    column = parquet.mistyped_columns(cells, table)[0]
    value = cells[column]
    said = raised(value) if isinstance(value, BaseException) else f"{value!r}, {type(value).__name__}"
    facts = {
        "case": cells["case"],
        "column": f"{column}, {table.columns[column]}",
        "value": said,
        "rows": f"{len(refused)} not written; the others are",
    }
    hint = "Fix the operation's file (docs/adding.md), then run again; the measurements are recorded."
    return DispatchflowError("a row does not fit its columns", facts, hint)
