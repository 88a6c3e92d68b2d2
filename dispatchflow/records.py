"""What executed actions left, in SQLite (WAL): a killed process loses nothing that was recorded.

record        one a key: a success, or a failure that would repeat itself
latest        the key that a case's stage had when it was last made: for `explain`
measurement   append-only; blocks are recorded as they end; never pooled
row           what goes to Parquet: first here, then in a part that can be written again from here
said          the identity of each case's newest row
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec.json import decode

from dispatchflow.errors import StoreError
from dispatchflow.keys import Digest, Key
from dispatchflow.recorded import Found, Measurement, Reader, Record, Snapshot
from dispatchflow.statistics import median

__all__ = ["Found", "Measurement", "Reader", "Record", "Records"]

_VERSION = 2
_SEEKS_A_CASE, _ROWS_A_SEEK = 6, 6
"""To look up one key takes as long as to read so many records in their order."""

# The indexes of records and measurements hold all that planning reads of them: it never goes to the wide rows.
_SCHEMA = """
create table record (
  id integer primary key, key text not null, stage text not null, ok integer not null, reason text,
  code text, outputs text not null, facts text not null, ingredients text not null, cost_s real not null,
  run text not null, at real not null
);
create index record_key on record (key, ok, code, outputs);
create table output (digest text not null, key text not null, primary key (digest, key)) without rowid;
create table latest (name text, stage text, key text not null, primary key (name, stage)) without rowid;
create table measurement (
  id integer primary key, key text not null, status text not null, reason text, median_ns real,
  conditions text not null, ingredients text not null, run text not null, at real not null
);
create index measurement_key on measurement (key, status, median_ns);
create table block (
  measurement integer not null, number integer not null, ns real not null, dispatch_ns real, cost_s real not null,
  at real not null, primary key (measurement, number)
) without rowid;
create table row (identity text primary key, content text not null, part text);
create index row_part on row (part);
create table said (name text primary key, identity text not null) without rowid;
create table remembered (name text primary key, value text not null) without rowid;
"""


class Records:
    """One connection, any thread."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.RLock()
        self._db = sqlite3.connect(path, timeout=60, check_same_thread=False, isolation_level=None)
        try:
            self._use_wal()
            self._db.execute("pragma synchronous = normal")
            version = self._db.execute("pragma user_version").fetchone()[0]
            if version == 0:
                self._create()
            elif version != _VERSION:
                raise StoreError(
                    "this store was written by another version of dispatchflow",
                    {"store": path, "schema": version, "known": _VERSION},
                    "Use that version, or set DISPATCHFLOW_STORE to a new directory.",
                )
        except sqlite3.DatabaseError as error:
            raise StoreError(
                "the records cannot be read",
                {"file": path, "found": error},
                "Move the file away to begin anew; the Parquet parts in results/ stay readable.",
            ) from error

    def _use_wal(self) -> None:
        # Unlike a transaction, this change does not wait for another who is opening the same new file.
        for attempts_left in reversed(range(600)):
            try:
                self._db.execute("pragma journal_mode = wal")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or not attempts_left:
                    raise
                time.sleep(0.1)

    def _create(self) -> None:
        with self._transaction():
            if self._db.execute("pragma user_version").fetchone()[0] == 0:  # another invocation may have been first
                for statement in _SCHEMA.split(";\n"):
                    self._db.execute(statement)
                self._db.execute(f"pragma user_version = {_VERSION}")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            self._db.execute("begin immediate")
            try:
                yield
            except BaseException:
                self._db.execute("rollback")
                raise
            self._db.execute("commit")

    def _all(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._db.execute(query, values).fetchall()

    def close(self) -> None:
        """The last connection that is closed leaves one whole file."""
        with self._lock:
            self._db.close()

    # --- actions

    def get(self, key: Key) -> Record | None:
        rows = self._all(
            "select stage, ok, reason, outputs, facts, ingredients, cost_s, run, at from record where key = ?", key
        )
        if not rows:
            return None
        stage, ok, reason, outputs, facts, ingredients, cost_s, run, at = rows[0]
        return Record(
            key, stage, bool(ok), reason, decode(outputs), decode(facts), decode(ingredients), cost_s, run, at
        )

    def found(self, key: Key) -> Found | None:
        rows = self._all("select ok, code, outputs from record where key = ?", key)
        if not rows:
            return None
        ok, code, outputs = rows[0]
        return Found(key, bool(ok), code, outputs, self)

    def add(self, record: Record) -> None:
        """The newest of a key stands: a failure that was tried again, an object that was made anew."""
        dumps = json.dumps
        values = (
            record.key, record.stage, record.ok, record.reason, record.facts.get("code_digest"), dumps(record.outputs),
            dumps(record.facts), dumps(record.ingredients), record.cost_s, record.run, record.at or time.time(),
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

    def set_latest(self, name: str, keys: Mapping[str, Key]) -> None:
        with self._transaction():
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
        with self._transaction():
            self._db.execute(
                "update measurement set status = ?, reason = ?, conditions = ?, median_ns = ? where id = ?",
                (status, reason, json.dumps(conditions), median(ordered) if ordered else None, measurement),
            )

    def measurement(self, key: Key) -> Measurement | None:
        """The newest that was ended; None when there is none."""
        rows = self._all(
            "select id, status, median_ns from measurement where key = ? and status <> 'open' order by id desc limit 1",
            key,
        )
        if not rows:
            return None
        id_, status, median_ns = rows[0]
        return Measurement(id_, key, status, median_ns, self)

    def observation(self, measurement: int) -> tuple[str | None, Mapping[str, Any], Mapping[str, Any], str, float]:
        """(reason, conditions, ingredients, run, at)"""
        ((reason, conditions, ingredients, run, at),) = self._all(
            "select reason, conditions, ingredients, run, at from measurement where id = ?", measurement
        )
        return reason, decode(conditions), decode(ingredients), run, at

    def blocks(self, measurement: int) -> list[tuple[float, float | None, float]]:
        """(ns, dispatch_ns, cost_s) of each, as they were taken."""
        return self._all("select ns, dispatch_ns, cost_s from block where measurement = ? order by number", measurement)

    def reader(self, cases: int) -> Reader:
        """For planning so many cases: of many all that there is, read at once."""
        size = self._all("select coalesce(max(id), 0) from record")[0][0]
        return Snapshot(self) if cases * _SEEKS_A_CASE * _ROWS_A_SEEK > size else self

    def everything(self) -> tuple[dict[Key, tuple[Any, ...]], dict[Key, tuple[Any, ...]]]:
        """Key → (key, ok, code, outputs) of all records, (key, id, status, median) of the newest ended measurements."""
        records = self._all("select key, ok, code, outputs from record")
        measurements = self._all(
            "select key, max(id), status, median_ns from measurement where status <> 'open' group by key"
        )
        return {row[0]: row for row in records}, {row[0]: row for row in measurements}

    def last_measurement(self) -> int:
        """The id of the newest, ended or not; 0 when there is none."""
        return int(self._all("select coalesce(max(id), 0) from measurement")[0][0])

    # --- rows

    def said(self, names: Iterable[str]) -> dict[str, str]:
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
        with self._transaction():
            return self._db.execute("update row set part = ? where part is null", (part,)).rowcount

    def parts(self) -> list[str]:
        return [part for (part,) in self._all("select distinct part from row where part is not null")]

    def rows_of(self, part: str) -> list[dict[str, Any]]:
        return [
            decode(content) for (content,) in self._all("select content from row where part = ? order by rowid", part)
        ]

    # --- facts about this machine that are dear to find out

    def remembered(self, name: str) -> str | None:
        rows = self._all("select value from remembered where name = ?", name)
        return rows[0][0] if rows else None

    def remember(self, name: str, value: str) -> None:
        with self._transaction():
            self._db.execute("insert or replace into remembered values (?,?)", (name, value))
