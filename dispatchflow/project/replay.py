"""Replay the output of an earlier run that had nothing to do, as long as no input has changed.

Output and exit code are called an answer (docs/decisions/0010). They are kept in the file
`.dispatchflow/answers/QUESTION`; QUESTION is a digest of the command line and its environment."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from dispatchflow.iree import command_lines
from dispatchflow.keys import digest_file, digest_of
from dispatchflow.project.dodo_file import cache_path, store_path
from dispatchflow.store.stamps import ABSENT, stamp
from dispatchflow.tools import machine

_ANSWERS = 100
"""The number of answers that are kept. Older answers are removed."""


def _file(name: str) -> str:
    try:
        return (
            digest_file(path) if (path := Path(name)).is_file() else ABSENT
        )  # reading a pipe would wait for its writer
    except OSError:
        return ABSENT


def _database(name: str) -> str:
    """Return the stamps (size, times, …) of a SQLite file and of its write-ahead log.

    An empty log counts as missing."""
    log = stamp(f"{name}-wal")
    return f"{stamp(name)} {ABSENT if log.split()[2:3] == ['0'] else log}"


def _stamps(paths: Iterable[str]) -> str:
    found = sorted(f"{path} {stamp(path)}" for path in paths)
    return digest_of("\n".join(found).encode("utf-8", "surrogatepass"))


def _folder(name: str) -> str:
    try:
        return _stamps(entry.path for entry in os.scandir(name))
    except OSError:
        return ABSENT


def _source(name: str) -> str:
    return _stamps(_sources(name))


def _sources(folder: str) -> Iterator[str]:
    for entry in os.scandir(folder):
        if entry.name.endswith((".py", ".toml")):
            yield entry.path
        elif entry.name != "__pycache__" and entry.is_dir():
            yield from _sources(entry.path)


def _imported(dodo: str) -> str:
    python, ours = (f"{os.path.dirname(path)}/" for path in (os.__file__, os.path.dirname(__file__)))  # noqa: PTH120
    files = {dodo, *(getattr(module, "__file__", None) or dodo for module in [*sys.modules.values()])}
    return _stamps(
        file  # without Python's own files (`sys.version` is an input) and without ours (they are the input `source`)
        for file in files
        if not file.startswith(ours) and ("-packages/" in file or not file.startswith(python))
    )


def _machine(_: str) -> str:
    found = (
        machine.identity(),
        machine.cpu(),
        machine.cores(),
        machine.workers(),
        machine.memory_bytes(),
        machine.last_level_cache_bytes(),
    )
    return digest_of(repr(found).encode())


def _package(name: str) -> str:
    """Return the stamp (size, times, …) of a package's `__init__.py`, without importing the package."""
    found = find_spec(name)
    return stamp(found.origin) if found and found.origin else ABSENT


def _library(name: str) -> str:
    from dispatchflow.libraries import installed

    return repr(installed.library(name))


def _driver(name: str) -> str:
    from dispatchflow.store.locks import MachineLock
    from dispatchflow.tools import devices
    from dispatchflow.tools.limits import Limits

    driver, tool, run_s, memory_bytes, store = json.loads(name)
    limits = Limits(run_s=run_s, memory_bytes=memory_bytes)
    with MachineLock(Path(store)).busy():
        return repr(devices.detect(driver, tool, limits))


_LOOK: dict[str, Callable[[str], str]] = {
    "file": _file,
    "stamp": stamp,
    "database": _database,
    "folder": _folder,
    "source": _source,
    "imported": _imported,
    "machine": _machine,
    "package": _package,
    "library": _library,
    "driver": _driver,
}


class Replay:
    """The answer of a command line, and the inputs on which the answer depends."""

    def __init__(self, dodo: Path, words: Sequence[str], variables: Mapping[str, str], own: Sequence[str] = ()) -> None:
        """Read the state of the inputs on which every answer depends, such as the code of dispatchflow.

        `own` has the names of the user's task functions, which may change what a word such as `compile` means."""
        root = dodo.parent
        self._store = store_path(root).absolute()
        asked = {
            "root": os.fspath(root),
            "directory": os.getcwd(),  # noqa: PTH109
            "store": os.fspath(self._store),
            "cache": str(cache_path()),
            "words": list(words),
            "variables": dict(variables),
            "environment": command_lines.device_environment(os.environ),
            "python": [sys.version, *sys.path],
            "own": list(own),
            "doit": "doit" in sys.modules,  # a start by `doit` imports more modules
        }
        question = digest_of(json.dumps(asked, sort_keys=True).encode())
        self._answer = self._store / "answers" / question
        self._seen: dict[tuple[str, str], str] = {}
        self._records = ("database", os.fspath(self._store / "records.sqlite"))
        for kind, name in (
            self._records,
            ("source", os.path.dirname(os.path.dirname(__file__))),  # noqa: PTH120
            ("imported", os.fspath(dodo)),
            ("machine", ""),
            ("package", "numpy"),
            ("package", "ml_dtypes"),
            *(("folder", os.fspath(self._store / name)) for name in ("results", "sites")),
            ("stamp", os.fspath(root / "build")),
        ):
            self.look(kind, name)

    def look(self, kind: str, name: str) -> str:
        """Record and return the state of something on which a command's output depends.

        For example, `look("file", "dodo.py")` returns a digest of the file."""
        return self.see(kind, name, _LOOK[kind](name))

    def see(self, kind: str, name: str, value: str) -> str:
        """Record `value` as the state of an input, and return it.

        If a state of this input is recorded already, that state is kept and returned instead."""
        return self._seen.setdefault((kind, name), value)

    def answer_if_unchanged(self) -> tuple[int, str] | None:
        """Return the exit code and the text of the earlier run, if all its inputs are unchanged.

        Returns None if an input has changed, or if no run of this command line is recorded."""
        with suppress(OSError, ValueError):  # no such answer
            digest, _, text = self._answer.read_text().partition("\n")
            if digest == digest_of(text.encode()):  # otherwise the file is damaged
                found = json.loads(text)
                if all(self._is_still(*each) for each in found["seen"]):
                    return found["code"], found["said"]
        return None

    def _is_still(self, kind: str, name: str, value: str) -> bool:
        known = self._seen.get((kind, name))
        return (_LOOK[kind](name) if known is None else known) == value

    def keep(self, code: int, text: str) -> None:
        """Keep the exit code and the text of a run that had nothing to do.

        If the store's records changed during the run, nothing is kept."""
        kind, name = self._records
        if _LOOK[kind](name) != self._seen[self._records]:
            return
        found = {"seen": [(*look, value) for look, value in self._seen.items()], "code": code, "said": text}
        beside = self._answer.with_name(f".{self._answer.name}.{os.getpid()}")
        with suppress(OSError):  # disk full or not writable: the next run plans again
            beside.parent.mkdir(exist_ok=True)
            text = json.dumps(found)
            beside.write_text(f"{digest_of(text.encode())}\n{text}")
            beside.replace(self._answer)
            for old in sorted(beside.parent.iterdir(), key=lambda path: path.stat().st_mtime_ns)[:-_ANSWERS]:
                old.unlink()
