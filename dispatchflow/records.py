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
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dispatchflow.errors import StoreError
from dispatchflow.keeping import Held
from dispatchflow.keys import Digest, Key

_VERSION = 1
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
            json.loads(outputs),
            json.loads(facts),
            json.loads(ingredients),
            cost_s,
            run,
            at,
        )

    def add(self, record: Record) -> None:
        """The newest of a key stands: a failure that was tried again, an object that was made anew."""
        dumps = json.dumps
        values = (record.key, record.stage, record.ok, record.reason, dumps(record.outputs), dumps(record.facts))
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

    def held(self) -> list[Held]:
        """Every record that names objects."""
        rows = self._all("select key, stage, at, outputs from record where outputs <> '{}'")
        return [Held(key, stage, at, json.loads(outputs)) for key, stage, at, outputs in rows]

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

    def problems(self) -> list[str]:
        """What SQLite finds wrong with the file."""
        try:
            return [line for (line,) in self._all("pragma quick_check") if line != "ok"]
        except sqlite3.DatabaseError as error:
            return [str(error)]

    def cases(self) -> int:
        """How many were ever made."""
        return int(self._all("select count(distinct name) from latest")[0][0])

    def name_of(self, key: Key) -> str | None:
        """One of the cases of which this is the latest key of a stage."""
        rows = self._all("select min(name) from latest where key = ?", key)
        return rows[0][0] if rows else None

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
                (status, reason, json.dumps(conditions), measurement),
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
            id_, key, status, reason, json.loads(conditions), json.loads(ingredients), run, at,
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
        return [
            json.loads(content)
            for (content,) in self._all("select content from row where part = ? order by rowid", part)
        ]

    # --- facts about this machine that are dear to find out

    def remembered(self, name: str) -> str | None:
        rows = self._all("select value from remembered where name = ?", name)
        return rows[0][0] if rows else None

    def remember(self, name: str, value: str) -> None:
        with self._transaction():
            self._db.execute("insert or replace into remembered values (?,?)", (name, value))
