"""Records of actions (steps such as a compile) in SQLite. A killed process loses no recorded data."""

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
from dispatchflow.store.schema import HELD, SCHEMA, VERSION
from dispatchflow.timing.statistics import median

_SEEKS_A_CASE, _ROWS_A_SEEK = 6, 6
"""Planning a case takes six lookups. In the time of one lookup, a scan reads six rows."""

_NEWEST = 4000
"""The method `medians_with_sessions` reads at most this many measurements. This takes tens of ms."""


def _text(reason: str | None) -> str | None:
    # A path in the text may have bytes that are not UTF-8, which SQLite and Parquet refuse.
    return None if reason is None else reason.encode(errors="backslashreplace").decode()


class Records(Database):
    """A connection to the database of a store. All threads share the connection."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, SCHEMA, VERSION)

    def _begin(self) -> None:
        # Row numbers start at the time in units of 2**-20 s: above all numbers in Parquet files of an older database.
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
        """Add `record`, or replace the record with the same key."""
        code, dumps = record.facts.get("runtime_digest" if record.stage == "verify" else "code_digest"), json.dumps
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
        """Delete the records of all actions with the output `digest`. These actions then run again."""
        with self._transaction():
            self._db.execute("delete from record where key in (select key from output where digest = ?)", (digest,))
            self._db.execute("delete from output where digest = ?", (digest,))

    def held(self) -> list[StoredRecord]:
        """Return all records that have at least one output."""
        rows = self._all(HELD)
        return [StoredRecord(key, stage, at, self.value(outputs), *made) for key, stage, at, outputs, *made in rows]

    def forget(self, keys: Collection[Key], digests: Collection[Digest]) -> None:
        """Delete the records and output rows of the actions `keys`, and the output rows with `digests`."""
        with self._lock:
            self._db.execute("pragma synchronous = full")  # a power failure must not restore the records
            try:
                with self._transaction():
                    gone = "in (select value from json_each(?))"
                    self._db.execute(f"delete from record where key {gone}", (json.dumps([*keys]),))
                    self._db.execute(
                        f"delete from output where key {gone} or digest {gone}",  # one scan; key has no index
                        (json.dumps([*keys]), json.dumps([*digests])),
                    )
            finally:
                self._db.execute("pragma synchronous = normal")

    def compiled(self) -> list[Key]:
        return [key for (key,) in self._all("select key from record where stage = 'compile' and ok order by key")]

    def passed_compiles(self, toolchain: Digest) -> Iterator[tuple[Digest, Mapping[str, Any]]]:
        """Yield (code digest, ingredients) of successful compiles by toolchains other than `toolchain`."""
        others = "stage = 'compile' and ok and json_extract(ingredients, '$.toolchain') <> ?"
        for code, text in self._all(f"select code, ingredients from record where {others}", toolchain):
            yield code, self.value(text)

    def problems(self) -> list[str]:
        """Return one text for each fault that SQLite finds in the database file."""
        try:
            return [line for (line,) in self._all("pragma quick_check") if line != "ok"]
        except StoreError as error:
            return [str(error.facts.get("found", error.problem))]

    def require_sound(self) -> None:
        """Raise a `StoreError` if the file is damaged. Queries may silently skip damaged pages."""
        if problems := self.problems():
            raise self._store_error(ValueError(" ".join(problems[0].split())))

    def cases(self) -> int:
        """Return the number of cases that have ever run in this store."""
        return int(self._all("select count(distinct name) from latest")[0][0])

    def name_of(self, key: Key) -> str | None:
        """Return the name of a case with a stage whose newest key is `key`; None if there is no such case."""
        rows = self._all("select min(name) from latest where key = ?", key)
        return rows[0][0] if rows else None

    def set_latest(self, name: str, keys: Mapping[str, Key], shown: Mapping[str, str]) -> None:
        """Record the newest key of each stage of the case `name`, and which row `build/CASE/` shows."""
        with self._transaction():
            # {"CASE PATH": identity} (see schema.py), or {} if the folder could not be written.
            self._db.executemany("insert or replace into said values (?,?)", shown.items())
            self._db.executemany(
                "insert or replace into latest values (?,?,?)", [(name, stage, key) for stage, key in keys.items()]
            )

    def latest(self, name: str) -> dict[str, Key]:
        return dict(self._all("select stage, key from latest where name = ?", name))

    def costs(self, protocol: str) -> dict[str, float]:
        """Return stage → mean time of an action in s. For `profile`, only measurements with `protocol` count."""
        took = "select sum(b.cost_s) / count(distinct m.id) from block b join measurement m on m.id = b.measurement"
        blocks = self._all(f"{took} where json_extract(m.ingredients, '$.protocol') = ?", protocol)[0][0]
        stages = dict(self._all("select stage, avg(cost_s) from record where ok group by stage"))
        return stages | ({"profile": blocks} if blocks else {})

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
        median_ns = median(blocks) if (blocks := [ns for ns, _, _ in self.blocks(measurement)]) else None
        runtime, machine = conditions.get("runtime_digest"), conditions.get("machine")
        with self._transaction():
            self._db.execute(
                "update measurement set status = ?, reason = ?, conditions = ?, median_ns = ?, runtime = ?, "
                "machine = ? where id = ?",
                (status, _text(reason), json.dumps(conditions), median_ns, runtime, machine, measurement),
            )

    def measurement(self, key: Key) -> Measurement | None:
        """Return the newest measurement of `key` that has ended, or None if no measurement has ended."""
        return next(self.measurements(key), None)

    def measurements(self, key: Key) -> Iterator[Measurement]:
        """Yield all ended measurements of `key`, the newest first."""
        rows = self._all(
            "select id, status, median_ns, runtime, machine from measurement where key = ? and status <> 'open' "
            "order by id desc",
            key,
        )
        for id_, status, median_ns, runtime, machine in rows:
            yield Measurement(id_, key, status, median_ns, runtime, machine, self)

    def medians_with_sessions(self) -> Iterator[tuple[Key, float, Mapping[str, Any]]]:
        """Yield (key, median in ns, facts about the machine's speed) of recent measurements, the newest first."""
        rows = self._all(
            "select key, median_ns, json_extract(conditions, '$.session') from measurement "
            "where status in ('measured', 'noisy') and median_ns > 0 order by id desc limit ?",
            _NEWEST,
        )
        for key, median_ns, session in rows:
            if session is not None:
                yield key, median_ns, self.value(session)  # the fields of an `anchors.Moment`

    def observation(self, measurement: int) -> tuple[str | None, Mapping[str, Any], Mapping[str, Any], str, float]:
        """Return (failure reason, conditions, ingredients, run name, start in s since 1970) of a measurement.

        `measurement` is its id. Ingredients are what the key is computed from."""
        ((reason, conditions, ingredients, run, at),) = self._all(
            "select reason, conditions, ingredients, run, at from measurement where id = ?", measurement
        )
        return reason, self.value(conditions), self.value(ingredients), run, at

    def blocks(self, measurement: int) -> list[tuple[float, float | None, float]]:
        """Return (ns per call, ns of dispatches, duration in s) of each benchmark process, oldest first.

        The time of the dispatches of a call is None if IREE's runtime does not report it."""
        return self._all("select ns, dispatch_ns, cost_s from block where measurement = ? order by number", measurement)

    def reader(self, cases: int) -> Reader:
        """Return a reader of records. If a plan has many cases, the reader loads all records at once."""
        size = self._all("select coalesce(max(id), 0) from record")[0][0]
        return Snapshot(self) if cases * _SEEKS_A_CASE * _ROWS_A_SEEK > size else self

    def everything(self) -> tuple[dict[Key, tuple[Any, ...]], dict[Key, tuple[Any, ...]]]:
        """Return two mappings: key → record, and key → newest ended measurement.

        A record is (key, ok, code, outputs as JSON). A measurement is (key, id, status, median, runtime, machine)."""
        records = self._all("select key, ok, code, outputs from record")
        measurements = self._all(
            "select key, max(id), status, median_ns, runtime, machine from measurement where status <> 'open' "
            "group by key"
        )
        return {row[0]: row for row in records}, {row[0]: row for row in measurements}

    def last_measurement(self) -> int:
        """Return the id of the newest measurement, even if it has not ended. Return 0 if none exists."""
        return int(self._all("select coalesce(max(id), 0) from measurement")[0][0])

    # --- rows

    def newest_identities(self, names: Iterable[str]) -> dict[str, str]:
        """Return the newest row's identity for each name in `names` that has rows, and maybe for other names."""
        wanted = list(names)
        # The result then has further names.
        if len(wanted) > 500:
            return dict(self._all("select name, identity from said"))
        return dict(
            self._all(f"select name, identity from said where name in ({','.join('?' * len(wanted))})", *wanted)
        )

    def add_rows(self, rows: Mapping[str, tuple[str, Mapping[str, Any]]], run: str, part: str | None = None) -> int:
        """Add each row that differs from the newest row of the same name. Return the number of added rows.

        `rows` maps a name to (row's digest, row). `part` is the rows' Parquet file, or None if not yet known."""
        added = 0
        with self._transaction():
            for name, (identity, content) in rows.items():
                if self._all("select 1 from said where name = ? and identity = ?", name, identity):
                    continue  # another invocation added it first
                again = self._all("select 1 from row where identity = ?", identity)  # equal to an older row
                unique = f"{identity} {run}" if again else identity
                self._db.execute("insert or ignore into row values (?,?,?)", (unique, json.dumps(content), part))
                self._db.execute("insert or replace into said values (?,?)", (name, identity))
                added += 1
        return added

    def assign_rows(self, part: str) -> int:
        """Assign the Parquet file `part` to all rows that have no file yet. Return the number of these rows."""
        if not self._all("select 1 from row where part is null limit 1"):
            return 0
        with self._transaction():
            return self._db.execute("update row set part = ? where part is null", (part,)).rowcount

    def parts(self) -> list[str]:
        return [part for (part,) in self._all("select distinct part from row where part is not null")]

    def rows_of(self, part: str) -> list[dict[str, Any]]:
        """Return the rows assigned to the file `part`, the oldest first. Newer rows have a higher `number`."""
        first = int(self.remembered("first_row") or 0)
        found = self._all("select rowid, content from row where part = ? order by rowid", part)
        return [{**self.value(content), "number": first + number} for number, content in found]

    def remembered(self, name: str) -> str | None:
        rows = self._all("select value from remembered where name = ?", name)
        return rows[0][0] if rows else None

    def remember(self, name: str, value: str) -> None:
        self.revise(name, lambda _: value)

    def revise(self, name: str, revised: Callable[[str | None], str]) -> str:
        """Set the value of `name` to `revised(old value, or None if unset)` atomically. Return the new value."""
        with self._transaction():
            value = revised(self.remembered(name))
            self._db.execute("insert or replace into remembered values (?,?)", (name, value))
        return value

    def remembered_of(self, kind: str) -> list[str]:
        """Return the values of all names that begin with `kind` and a colon."""
        return [value for (value,) in self._all("select value from remembered where name glob ?", f"{kind}:*")]
