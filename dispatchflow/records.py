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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dispatchflow import room
from dispatchflow.errors import StoreError
from dispatchflow.keys import Digest, Key

_VERSION = 1
_PATIENCE_S = 60.0
"""For another invocation's transaction, which takes milliseconds."""
_ANEW = (
    "Move the file away to begin anew; the Parquet parts in results/ stay readable. "
    "`sqlite3 records.sqlite .recover` may save more."
)
_SCHEMA = """
create table record (
  key text primary key, stage text not null, ok integer not null, reason text, outputs text not null,
  facts text not null, ingredients text not null, cost_s real not null, run text not null, at real not null
) without rowid;
create table output (digest text not null, key text not null, primary key (digest, key)) without rowid;
create table latest (name text, stage text, key text not null, primary key (name, stage)) without rowid;
create table measurement (
  id integer primary key, key text not null, status text not null, reason text, conditions text not null,
  ingredients text not null, run text not null, at real not null
);
create index measurement_key on measurement (key);
create table block (
  measurement integer not null, number integer not null, ns real not null, dispatch_ns real, cost_s real not null,
  at real not null, primary key (measurement, number)
) without rowid;
create table row (identity text primary key, content text not null, part text);
create index row_part on row (part);
create table said (name text primary key, identity text not null) without rowid;
create table remembered (name text primary key, value text not null) without rowid;
"""


def _text(reason: str | None) -> str | None:
    """A reason may name a path whose bytes are no text, which neither SQLite nor Parquet takes."""
    return None if reason is None else reason.encode(errors="backslashreplace").decode()


def _is_fault(error: BaseException) -> bool:
    """Of the file or the disk, not of our statements."""
    ours = (sqlite3.ProgrammingError, sqlite3.NotSupportedError)
    return isinstance(error, sqlite3.DatabaseError) and not isinstance(error, ours)


@dataclass(frozen=True, slots=True)
class Record:
    """What one executed action left. `facts` are measured values and words, `outputs` name → object."""

    key: Key
    stage: str
    ok: bool
    reason: str | None = None
    outputs: Mapping[str, Digest] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    ingredients: Mapping[str, Any] = field(default_factory=dict)
    cost_s: float = 0.0
    run: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Measurement:
    """All blocks of one case under one protocol. Status: `open`, `measured`, `noisy`, `failed`."""

    id: int
    key: Key
    status: str
    reason: str | None
    conditions: Mapping[str, Any]
    ingredients: Mapping[str, Any]
    run: str
    at: float
    blocks_ns: tuple[float, ...]
    dispatch_ns: tuple[float, ...]
    cost_s: float


class Records:
    """One connection, any thread."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.RLock()
        self._db = sqlite3.connect(path, timeout=_PATIENCE_S, check_same_thread=False, isolation_level=None)
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
            raise self._told(error) from error

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
                # A new database beside old parts goes on behind them, at up to a million rows a second.
                first = str(int(time.time()) << 20)
                self._db.execute("insert into remembered values ('first_row', ?)", (first,))
                self._db.execute(f"pragma user_version = {_VERSION}")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            try:
                self._db.execute("begin immediate")
                yield
                self._db.execute("commit")
            except BaseException as error:
                if self._db.in_transaction:  # SQLite itself has rolled back what found no room
                    self._db.execute("rollback")
                if _is_fault(error):
                    raise self._told(error) from error
                raise

    def _all(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                return self._db.execute(query, values).fetchall()
            except sqlite3.DatabaseError as error:
                if _is_fault(error):
                    raise self._told(error) from error
                raise

    def _value(self, text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError as error:
            raise self._told(error) from error

    def _told(self, error: BaseException) -> StoreError:
        facts = {"file": self._path, "found": error}
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            room.check(self._path.parent)
        if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
            return StoreError(
                "the records cannot be written", facts, room.MAKE_ROOM if code == sqlite3.SQLITE_FULL else ""
            )
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return StoreError("another program holds the records", facts, "End it, and run again.")
        return StoreError("the records cannot be read", facts, _ANEW)

    # --- actions

    def get(self, key: Key) -> Record | None:
        rows = self._all(
            "select stage, ok, reason, outputs, facts, ingredients, cost_s, run, at from record where key = ?", key
        )
        if not rows:
            return None
        stage, ok, reason, outputs, facts, ingredients, cost_s, run, at = rows[0]
        return Record(
            key,
            stage,
            bool(ok),
            reason,
            self._value(outputs),
            self._value(facts),
            self._value(ingredients),
            cost_s,
            run,
            at,
        )

    def add(self, record: Record) -> None:
        """The newest of a key stands: a failure that was tried again, an object that was made anew."""
        dumps = json.dumps
        reason = _text(record.reason)
        values = (record.key, record.stage, record.ok, reason, dumps(record.outputs), dumps(record.facts))
        with self._transaction():
            self._db.execute(
                "insert or replace into record values (?,?,?,?,?,?,?,?,?,?)",
                (*values, dumps(record.ingredients), record.cost_s, record.run, record.at or time.time()),
            )
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
        with self._transaction():
            self._db.execute(
                "update measurement set status = ?, reason = ?, conditions = ? where id = ?",
                (status, _text(reason), json.dumps(conditions), measurement),
            )

    def measurement(self, key: Key) -> Measurement | None:
        """The newest that was ended; None when there is none."""
        rows = self._all(
            "select id, status, reason, conditions, ingredients, run, at from measurement "
            "where key = ? and status <> 'open' order by id desc limit 1",
            key,
        )
        if not rows:
            return None
        id_, status, reason, conditions, ingredients, run, at = rows[0]
        blocks = self._all("select ns, dispatch_ns, cost_s from block where measurement = ? order by number", id_)
        return Measurement(
            id_, key, status, reason, self._value(conditions), self._value(ingredients), run, at,
            blocks_ns=tuple(ns for ns, _, _ in blocks),
            dispatch_ns=tuple(ns for _, ns, _ in blocks if ns is not None),
            cost_s=sum(cost for _, _, cost in blocks),
        )  # fmt: skip

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
        """In order, each with its `number`: of two rows of a store the newer one has the higher, whatever the clock."""
        first = int(self.remembered("first_row") or 0)
        found = self._all("select rowid, content from row where part = ? order by rowid", part)
        return [{**self._value(content), "number": first + number} for number, content in found]

    # --- facts about this machine that are dear to find out

    def remembered(self, name: str) -> str | None:
        rows = self._all("select value from remembered where name = ?", name)
        return rows[0][0] if rows else None

    def remember(self, name: str, value: str) -> None:
        with self._transaction():
            self._db.execute("insert or replace into remembered values (?,?)", (name, value))
