"""A SQLite database that threads and processes share."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec import DecodeError
from msgspec.json import decode

from dispatchflow.errors import DiskFull, StoreError
from dispatchflow.store import disk

_PATIENCE_S = 60.0
"""The longest wait for another process's transaction. A transaction takes only milliseconds."""
_ANEW = (
    "Move the file away to start with empty records; the Parquet parts in results/ stay readable. "
    "`sqlite3 records.sqlite .dump` prints what can still be read."
)


def _is_fault(error: BaseException) -> bool:
    ours = (sqlite3.ProgrammingError, sqlite3.NotSupportedError)  # wrong use of `sqlite3`, not a fault of the file
    return isinstance(error, sqlite3.DatabaseError) and not isinstance(error, ours)


_LONGEST = 500
"""The longest path that a database may have, in bytes.

SQLite's limit is 512 bytes, including the ending `-journal` or `-wal`."""
_NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


def _code(error: BaseException) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


class Database:
    """A connection to a SQLite file, which all threads share.

    The file `path` is created if it does not exist. `schema` has SQL statements, separated by `;` and a newline, that
    create the tables.

    Raises:
        StoreError: the file cannot be opened, or has a schema of another `version`. A query raises this error if
            the file or the disk is at fault.
    """

    def __init__(self, path: Path, schema: str, version: int) -> None:
        self._path, self._lock = path, threading.RLock()
        try:
            try:
                self._open()
            except sqlite3.OperationalError as error:
                if _code(error) not in _NO_ROOM:
                    raise
                self._db.close()
                self._open(alone=True)
            found = self._db.execute("pragma user_version").fetchone()[0]
            if found == 0:
                self._create(schema, version)
            elif found != version:
                raise StoreError(
                    "this store was written by another version of dispatchflow",
                    {"store": path, "schema": found, "known": version},
                    "Use that version, or set DISPATCHFLOW_STORE to a new directory.",
                )
        except sqlite3.DatabaseError as error:
            raise self._store_error(error) from error

    def _open(self, alone: bool = False) -> None:
        self._db = sqlite3.connect(self._path, timeout=_PATIENCE_S, check_same_thread=False, isolation_level=None)
        if alone:  # SQLite then needs no file `-shm`, which cannot be created on a full disk
            self._db.execute("pragma locking_mode = exclusive")
        self._use_wal()
        self._db.execute("pragma synchronous = normal")

    def _use_wal(self) -> None:
        # SQLite applies its timeout while another process has the file open alone, but not while one creates the file.
        end = time.monotonic() + _PATIENCE_S
        while True:
            try:
                self._db.execute("pragma journal_mode = wal")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def _create(self, schema: str, version: int) -> None:
        with self._transaction():
            if self._db.execute("pragma user_version").fetchone()[0] == 0:  # another invocation may have been first
                for statement in schema.split(";\n"):
                    self._db.execute(statement)
                self._begin()
                self._db.execute(f"pragma user_version = {version}")

    def _begin(self) -> None:
        """Add the first rows of a new database. Subclasses override this method.

        The method is called in the transaction that creates the tables."""

    def close(self) -> None:
        """Close the connection. Committed data is safe even if this method is not called."""
        with self._lock, suppress(sqlite3.Error):
            self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            try:
                self._db.execute("begin immediate")
                yield
                self._db.execute("commit")
            except BaseException as error:
                if self._db.in_transaction:  # SQLite itself rolls a transaction back when the disk is full
                    self._db.execute("rollback")
                if _is_fault(error):
                    raise self._store_error(error) from error
                raise

    def _all(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                return self._db.execute(query, values).fetchall()
            except sqlite3.DatabaseError as error:
                if _is_fault(error):
                    raise self._store_error(error) from error
                raise

    def value(self, text: str) -> Any:
        """Decode `text`, the JSON in a cell of the database.

        Raises:
            StoreError: the cell is damaged.
        """
        try:
            return decode(text)
        except DecodeError:  # an infinite number, which `json` reads, or invalid JSON
            pass
        try:
            return json.loads(text)
        except ValueError as error:
            raise self._store_error(error) from error

    def _store_error(self, error: BaseException) -> StoreError:
        facts = {"file": self._path, "found": error}
        code = _code(error)
        if code in _NO_ROOM:
            disk.check(self._path.parent)
        if code == sqlite3.SQLITE_FULL:
            return DiskFull("the records cannot be written", facts, disk.MAKE_ROOM)
        unwritable = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)
        if code in unwritable and not self._path.is_dir():
            beside = (Path(f"{self._path}{ending}") for ending in ("", "-wal", "-shm"))
            refused = [str(path) for path in beside if path.exists() and not os.access(path, os.W_OK)]
            facts |= {"file": ", ".join(refused)} if refused else {}
            long = len(os.fsencode(self._path.absolute())) > _LONGEST
            return StoreError("the records cannot be written", facts, disk.TOO_LONG if long else disk.ELSEWHERE)
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return StoreError("another program holds the records", facts, "End it, and run again.")
        return StoreError("the records cannot be read", facts, _ANEW)
