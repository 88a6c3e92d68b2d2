"""What an idle invocation said, and all that it had looked at: while nothing of that changed, it is said again.

It never decides what is made: with one difference everything is planned anew, from keys (docs/decisions/0010).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from dispatchflow import commands, machine
from dispatchflow.database import store_path
from dispatchflow.errors import DispatchflowError
from dispatchflow.keys import digest_file, digest_of
from dispatchflow.records import Records
from dispatchflow.stamps import ABSENT, stamp


def _file(name: str) -> str:
    try:
        return digest_file(path) if (path := Path(name)).is_file() else ABSENT  # a pipe would wait for its writer
    except OSError:
        return ABSENT


def _source(name: str) -> str:
    """Of all modules and tables below a directory."""
    found = [
        f"{entry.path} {stamp(entry.path)}"
        for folder in (name, *(entry.path for entry in os.scandir(name) if entry.is_dir()))
        for entry in os.scandir(folder)
        if entry.name.endswith((".py", ".toml"))
    ]
    return digest_of("\n".join(sorted(found)).encode("utf-8", "surrogatepass"))


def _machine(_: str) -> str:
    found = (machine.cpu(), machine.cores(), machine.memory_bytes(), machine.last_level_cache_bytes())
    return digest_of(repr(found).encode())


def _version(name: str) -> str:
    from importlib.metadata import version

    return version(name)


def _library(name: str) -> str:
    from dispatchflow import installed

    return repr(installed.library(name))


def _driver(name: str) -> str:
    import tempfile

    from dispatchflow import devices

    tool, _, driver = name.rpartition(" ")
    with tempfile.TemporaryDirectory() as scratch:
        return repr(devices.found(driver, tool, Path(scratch)))


_LOOK: dict[str, Callable[[str], str]] = {
    "file": _file,
    "stamp": stamp,
    "source": _source,
    "machine": _machine,
    "version": _version,
    "library": _library,
    "driver": _driver,
}


class Recall:
    """Of one command line. What is the same for all is looked at here, at the start; the rest is told to `see`."""

    def __init__(self, root: Path, words: Sequence[str], variables: Mapping[str, str]) -> None:
        self._store = store_path(root).absolute()
        asked = {
            "root": os.fspath(root),
            "directory": os.getcwd(),  # noqa: PTH109
            "store": os.fspath(self._store),
            "words": list(words),
            "variables": dict(variables),
            "environment": commands.device_environment(os.environ),
            "python": [sys.version, *sys.path],
        }
        self._question = digest_of(json.dumps(asked, sort_keys=True).encode())
        self._seen: dict[tuple[str, str], str] = {}
        self._state: str | None = None
        for kind, name in (
            ("source", os.path.dirname(__file__)),  # noqa: PTH120
            ("machine", ""),
            ("version", "numpy"),
            ("version", "ml_dtypes"),
            ("stamp", os.fspath(self._store / "results")),
            ("stamp", os.fspath(root / "build")),
        ):
            self.look(kind, name)

    def look(self, kind: str, name: str) -> str:
        """How something is now, which the answer depends on."""
        return self.see(kind, name, _LOOK[kind](name))

    def see(self, kind: str, name: str, value: str) -> str:
        """As `look`, of what was just read."""
        return self._seen.setdefault((kind, name), value)

    def said(self) -> tuple[int, str] | None:
        """The exit code and the text of the same command line, when everything is as it was; else None."""
        path = self._store / "records.sqlite"
        if not path.exists():
            return None
        with suppress(DispatchflowError, OSError):  # who plans anew will say it better
            records = Records(path)
            try:
                self._state = records.state()
                if (found := records.answer(self._question)) is None:
                    return None
                state, seen, code, text = found
                if state == self._state and all(self._is_still(*each) for each in json.loads(seen)):
                    return code, text
            finally:
                records.close()
        return None

    def _is_still(self, kind: str, name: str, value: str) -> bool:
        known = self._seen.get((kind, name))
        return (_LOOK[kind](name) if known is None else known) == value

    def keep(self, records: Records, code: int, text: str) -> None:
        """Of an invocation that had nothing to make; not where it wrote something all the same."""
        if self._state is not None and records.state() == self._state:
            seen = json.dumps([(kind, name, value) for (kind, name), value in self._seen.items()])
            records.keep_answer(self._question, self._state, seen, code, text)
