"""What executed actions left, in SQLite (WAL): a killed process loses nothing that was recorded."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dispatchflow.errors import StoreError
from dispatchflow.keys import Digest, Key
from dispatchflow.store.database import Database
from dispatchflow.store.entries import Measurement, Reader, Record, RecordHead, Snapshot
from dispatchflow.store.retention import StoredRecord
from dispatchflow.store.schema import SCHEMA, VERSION
from dispatchflow.timing.statistics import median

_SEEKS_A_CASE, _ROWS_A_SEEK = 6, 6
"""To look up one key takes as long as to read so many records in their order."""

_NEWEST = 4000
"""Measurements that say how cases feel what the anchors feel: some tens of ms to read, once a run."""


def _text(reason: str | None) -> str | None:
    """A reason may name a path whose bytes are no text, which neither SQLite nor Parquet takes."""
    return None if reason is None else reason.encode(errors="backslashreplace").decode()


class Records(Database):
    """One connection, any thread."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, SCHEMA, VERSION)

    def _begin(self) -> None:
        # A new database beside old parts goes on behind them, at up to a million rows a second.
        self._db.execute("insert into remembered values ('first_row', ?)", (str(int(time.time()) << 20),))

    # --- actions

    def get(self, key: Key) -> Record | None:
        rows = self._all(
            "select stage, ok, reason, outputs, facts, ingredients, cost_s, run, at from record where key = ?", key
        )
        if not rows:
            return None
        stage, ok, reason, outputs, facts, ingredients, cost_s, run, at = rows[0]
        outputs, facts, ingredients = map(self.value, (outputs, facts, ingredients))
        return Record(key, stage, bool(ok), reason, outputs, facts, ingredients, cost_s, run, at)

    def found(self, key: Key) -> RecordHead | None:
        rows = self._all("select ok, code, outputs from record where key = ?", key)
        if not rows:
            return None
        ok, code, outputs = rows[0]
        return RecordHead(key, bool(ok), code, outputs, self)

    def add(self, record: Record) -> None:
        """The newest of a key stands: a failure that was tried again, an object that was made anew."""
        dumps = json.dumps
        code = record.facts.get("runtime_digest" if record.stage == "verify" else "code_digest")
        values = (
            record.key, record.stage, record.ok, _text(record.reason), code,
            dumps(record.outputs), dumps(record.facts), dumps(record.ingredients),
            record.cost_s, record.run, record.at or time.time(),
        )  # fmt: skip
        with self._transaction():
            self._db.execute("delete from record where key = ?", (record.key,))
            self._db.execute("insert into record values (null,?,?,?,?,?,?,?,?,?,?,?)", values)
            self._db.executemany(
                "insert or ignore into output values (?,?)",
                [(digest, record.key) for digest in record.outputs.values()],
            )

    def drop_output(self, digest: Digest) -> None:
        """Forget every action that made this object: it is to be made anew."""
        with self._transaction():
            self._db.execute("delete from record where key in (select key from output where digest = ?)", (digest,))
            self._db.execute("delete from output where digest = ?", (digest,))

    def held(self) -> list[StoredRecord]:
        """Every record that names objects."""
        rows = self._all("select key, stage, at, outputs from record where outputs <> '{}'")
        return [StoredRecord(key, stage, at, self.value(outputs)) for key, stage, at, outputs in rows]

    def forget(self, keys: Collection[Key], digests: Collection[Digest]) -> None:
        """These records, on disk when this returns: their objects are removed next, and a power failure must not bring
        the records back. `digests`: the objects."""
        with self._lock:
            self._db.execute("pragma synchronous = full")
            try:
                with self._transaction():
                    gone = "in (select value from json_each(?))"
                    self._db.execute(f"delete from record where key {gone}", (json.dumps([*keys]),))
                    self._db.execute(
                        f"delete from output where key {gone} or digest {gone}",  # one scan: it has no index by key
                        (json.dumps([*keys]), json.dumps([*digests])),
                    )
            finally:
                self._db.execute("pragma synchronous = normal")

    def compiled(self) -> list[Key]:
        return [key for (key,) in self._all("select key from record where stage = 'compile' and ok order by key")]

    def passed_compiles(self) -> Iterator[tuple[Digest, Mapping[str, Any]]]:
        """The code digest and the ingredients of each compile that passed."""
        for code, ingredients in self._all("select code, ingredients from record where stage = 'compile' and ok"):
            yield code, self.value(ingredients)

    def problems(self) -> list[str]:
        """What SQLite finds wrong with the file."""
        try:
            return [line for (line,) in self._all("pragma quick_check") if line != "ok"]
        except StoreError as error:
            return [str(error.facts.get("found", error.problem))]

    def require_sound(self) -> None:
        """For who takes their silence for an answer: of a page that is damaged in part SQLite may read some rows and
        say nothing of the others.

        Raises:
            StoreError: SQLite finds something wrong with the file.
        """
        if problems := self.problems():
            raise self._store_error(ValueError(" ".join(problems[0].split())))

    def cases(self) -> int:
        """How many were ever made."""
        return int(self._all("select count(distinct name) from latest")[0][0])

    def name_of(self, key: Key) -> str | None:
        """One of the cases of which this is the latest key of a stage."""
        rows = self._all("select min(name) from latest where key = ?", key)
        return rows[0][0] if rows else None

    def set_latest(self, name: str, keys: Mapping[str, Key], shown: Mapping[str, str]) -> None:
        """`shown`: what the views now say of this case, as `newest_identities` tells it."""
        with self._transaction():
            self._db.executemany("insert or replace into said values (?,?)", shown.items())
            self._db.executemany(
                "insert or replace into latest values (?,?,?)", [(name, stage, key) for stage, key in keys.items()]
            )

    def latest(self, name: str) -> dict[str, Key]:
        return dict(self._all("select stage, key from latest where name = ?", name))

    def costs(self) -> dict[str, float]:
        """Mean seconds of one action of each stage, for estimates."""
        costs = dict(self._all("select stage, avg(cost_s) from record where ok group by stage"))
        blocks = self._all("select sum(cost_s) / count(distinct measurement) from block")[0][0]
        return costs | ({"profile": blocks} if blocks else {})

    # --- measurements

    def begin_measurement(
        self, key: Key, ingredients: Mapping[str, Any], conditions: Mapping[str, Any], run: str
    ) -> int:
        values = (key, "open", json.dumps(conditions), json.dumps(ingredients), run, time.time())
        with self._transaction():
            cursor = self._db.execute(
                "insert into measurement (key, status, conditions, ingredients, run, at) values (?,?,?,?,?,?)", values
            )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def add_block(self, measurement: int, number: int, ns: float, dispatch_ns: float | None, cost_s: float) -> None:
        with self._transaction():
            self._db.execute(
                "insert into block values (?,?,?,?,?,?)", (measurement, number, ns, dispatch_ns, cost_s, time.time())
            )

    def end_measurement(self, measurement: int, status: str, reason: str | None, conditions: Mapping[str, Any]) -> None:
        ordered = sorted(ns for ns, _, _ in self.blocks(measurement))
        median_ns = median(ordered) if ordered else None
        runtime, machine = conditions.get("runtime_digest"), conditions.get("machine")
        with self._transaction():
            self._db.execute(
                "update measurement set status = ?, reason = ?, conditions = ?, median_ns = ?, runtime = ?, "
                "machine = ? where id = ?",
                (status, _text(reason), json.dumps(conditions), median_ns, runtime, machine, measurement),
            )

    def measurement(self, key: Key) -> Measurement | None:
        """The newest that was ended; None when there is none."""
        return next(self.measurements(key), None)

    def measurements(self, key: Key) -> Iterator[Measurement]:
        """All that were ended, the newest first."""
        rows = self._all(
            "select id, status, median_ns, runtime, machine from measurement where key = ? and status <> 'open' "
            "order by id desc",
            key,
        )
        for id_, status, median_ns, runtime, machine in rows:
            yield Measurement(id_, key, status, median_ns, runtime, machine, self)

    def medians_with_sessions(self) -> Iterator[tuple[Key, float, Mapping[str, Any]]]:
        """Of the newest measurements: key, median in ns, and what the anchors said of the session."""
        rows = self._all(
            "select key, median_ns, json_extract(conditions, '$.session') from measurement "
            "where status in ('measured', 'noisy') and median_ns > 0 order by id desc limit ?",
            _NEWEST,
        )
        for key, median_ns, session in rows:
            if session is not None:
                yield key, median_ns, self.value(session)

    def observation(self, measurement: int) -> tuple[str | None, Mapping[str, Any], Mapping[str, Any], str, float]:
        """(reason, conditions, ingredients, run, at)"""
        ((reason, conditions, ingredients, run, at),) = self._all(
            "select reason, conditions, ingredients, run, at from measurement where id = ?", measurement
        )
        return reason, self.value(conditions), self.value(ingredients), run, at

    def blocks(self, measurement: int) -> list[tuple[float, float | None, float]]:
        """(ns, dispatch_ns, cost_s) of each, as they were taken."""
        return self._all("select ns, dispatch_ns, cost_s from block where measurement = ? order by number", measurement)

    def reader(self, cases: int) -> Reader:
        """For planning so many cases: of many all that there is, read at once."""
        size = self._all("select coalesce(max(id), 0) from record")[0][0]
        return Snapshot(self) if cases * _SEEKS_A_CASE * _ROWS_A_SEEK > size else self

    def everything(self) -> tuple[dict[Key, tuple[Any, ...]], dict[Key, tuple[Any, ...]]]:
        """Key → (key, ok, code, outputs) of all records; (key, id, status, median, runtime, machine) of the newest
        measurements that were ended."""
        records = self._all("select key, ok, code, outputs from record")
        measurements = self._all(
            "select key, max(id), status, median_ns, runtime, machine from measurement where status <> 'open' "
            "group by key"
        )
        return {row[0]: row for row in records}, {row[0]: row for row in measurements}

    def last_measurement(self) -> int:
        """The id of the newest, ended or not; 0 when there is none."""
        return int(self._all("select coalesce(max(id), 0) from measurement")[0][0])

    # --- rows

    def newest_identities(self, names: Iterable[str]) -> dict[str, str]:
        """Name → the identity of its newest row, for those that have one."""
        wanted = list(names)
        if len(wanted) > 500:
            return dict(self._all("select name, identity from said"))
        return dict(
            self._all(f"select name, identity from said where name in ({','.join('?' * len(wanted))})", *wanted)
        )

    def add_rows(self, rows: Mapping[str, tuple[str, Mapping[str, Any]]], run: str) -> int:
        """Name → (identity, content), each unless this was said last of that name. Returns how many were added."""
        added = 0
        with self._transaction():
            for name, (identity, content) in rows.items():
                if self._all("select 1 from said where name = ? and identity = ?", name, identity):
                    continue  # another invocation was faster
                again = self._all("select 1 from row where identity = ?", identity)  # the same as some time before
                unique = f"{identity} {run}" if again else identity
                self._db.execute("insert or ignore into row values (?,?,null)", (unique, json.dumps(content)))
                self._db.execute("insert or replace into said values (?,?)", (name, identity))
                added += 1
        return added

    def assign_rows(self, part: str) -> int:
        """All rows without a part become this part's. Returns how many."""
        if not self._all("select 1 from row where part is null limit 1"):
            return 0
        with self._transaction():
            return self._db.execute("update row set part = ? where part is null", (part,)).rowcount

    def parts(self) -> list[str]:
        return [part for (part,) in self._all("select distinct part from row where part is not null")]

    def rows_of(self, part: str) -> list[dict[str, Any]]:
        """In order, each with its `number`: of two rows of a store the newer one has the higher, whatever the clock."""
        first = int(self.remembered("first_row") or 0)
        found = self._all("select rowid, content from row where part = ? order by rowid", part)
        return [{**self.value(content), "number": first + number} for number, content in found]

    # --- facts about this machine that are dear to find out

    def remembered(self, name: str) -> str | None:
        rows = self._all("select value from remembered where name = ?", name)
        return rows[0][0] if rows else None

    def remember(self, name: str, value: str) -> None:
        self.revise(name, lambda _: value)

    def revise(self, name: str, revised: Callable[[str | None], str]) -> str:
        """Remember what becomes of the value, and return it: no other invocation's comes between."""
        with self._transaction():
            value = revised(self.remembered(name))
            self._db.execute("insert or replace into remembered values (?,?)", (name, value))
        return value

    def remembered_of(self, kind: str) -> list[str]:
        """All values whose name begins with `kind:`."""
        return [value for (value,) in self._all("select value from remembered where name glob ?", f"{kind}:*")]
