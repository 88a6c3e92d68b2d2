"""Find the requested sweeps: those of the specs, or those that the command line describes."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from dispatchflow.cases.known_failures import KnownFailure
from dispatchflow.cases.known_failures import parse as parse_known_failures
from dispatchflow.cases.module import Module
from dispatchflow.errors import NothingMatched, SpecError
from dispatchflow.keys import Digest, digest_file, digest_of
from dispatchflow.operations import DIMS, OPERATIONS, OPTIONS
from dispatchflow.planning import inference, parser, sweep_words
from dispatchflow.planning.location import COMMAND_LINE
from dispatchflow.planning.reading import Read
from dispatchflow.store.stamps import ABSENT

_DIMS_HINT = "Dims, shape=, file= or suite= make a sweep of their own, without specs: give one of the two."


class Observer(Protocol):
    """Records the files and folders on which the requested cases depend."""

    def look(self, kind: str, name: str) -> str: ...

    def see(self, kind: str, name: str, value: str) -> str: ...


class Sources:
    """The specs below `root`, and the variables of the command line.

    Args:
        root: the project's directory.
        values: a dict from the names of the command line's variables to their parsed values.
        seen: records the files and folders that are read; None to record nothing.
    """

    def __init__(self, root: Path, values: Mapping[str, Any], seen: Observer | None) -> None:
        self.root, self.values, self._seen = root, values, seen

    @property
    def adhoc(self) -> bool:
        """True if the command line describes a sweep, with variables such as `m=512`, `shape=` or `file=`."""
        return any(word in self.values for word in (*DIMS, "shape", *sweep_words.MODULE))

    def sweeps(self) -> list[parser.Sweep]:
        """Return the sweeps that the command line describes, or else the requested sweeps of the specs.

        Raises:
            SpecError: a spec or a variable is wrong, or there are no specs.
            NothingMatched: a requested operation is in no sweep of the specs.
        """
        words = {name: self.values[name] for name in sweep_words.AXES if name in self.values}
        named = self.values.get("operation", ())
        return self._described(words, named) if self.adhoc else self._specified(words, named)

    def parsed(self, text: str) -> list[parser.Sweep]:
        """Return the sweeps in a spec's text. Paths in the text are relative to the working directory.

        Raises:
            SpecError: the spec is wrong.
        """
        return parser.parse(text, Path("the text"), {}, self._reader(Path()))

    def known_failures(self) -> list[KnownFailure]:
        """Return the known failures of IREE that the specs list.

        They apply to the sweeps of the specs, and to sweeps that the command line describes.

        Raises:
            SpecError: an entry of the list is wrong.
        """
        folder = self.root / "specs"
        if "specs" not in self.values and not (folder.is_dir() and _toml_files(folder)):
            return []
        return [
            entry
            for path in self._spec_files()
            for entry in parse_known_failures(self._text(path), _relative(path, self.root))
        ]

    def _described(self, words: Mapping[str, Any], named: Sequence[str]) -> list[parser.Sweep]:
        if "specs" in self.values:
            raise SpecError("specs= and a sweep are both given", {"specs": ", ".join(self.values["specs"])}, _DIMS_HINT)
        own = {name: self.values[name] for name in (*DIMS, "shape", "tags", *sweep_words.MODULE) if name in self.values}
        own |= {name: list(value) for name, value in own.items() if isinstance(value, tuple)}
        each: list[dict[str, str]]
        if named:
            each = [{"operation": name} for name in named]
        elif set(own) & set(sweep_words.MODULE):
            each = [{"operation": Module.name}]
        elif dims := [name for name in own if name in DIMS]:
            each = [{"operation": inference.by_dims(dims, words)}]
        else:
            each = [{"operation": name, **having} for name, having in inference.by_shapes(own["shape"], words).items()]
        table = {**words, **own}
        read = self._reader(Path())
        return [parser.sweep({**table, **one}, COMMAND_LINE, read) for one in each]

    def _specified(self, words: Mapping[str, Any], named: Sequence[str]) -> list[parser.Sweep]:
        sweeps = [
            sweep
            for path in self._spec_files()
            for sweep in parser.parse(
                self._text(path), _relative(path, self.root), words, self._reader(path.parent), named
            )
        ]
        found = [sweep for sweep in sweeps if not named or sweep.operation.name in named]
        known = dict.fromkeys(sweep.operation.name for sweep in sweeps)
        if lacking := [name for name in named if name not in known]:
            facts = {"given": ", ".join(lacking), "operations": ", ".join(known) or "none"}
            hint = "Give a sweep here: shape=tiny, or dims."
            raise NothingMatched("no sweep of the specs has this operation", facts, hint)
        options = {option for sweep in found for option in getattr(sweep.operation, "options", ())}
        if word := next((word for word in words if word in OPTIONS and word not in options), None):
            having = [name for name, operation in OPERATIONS.items() if word in operation.options]
            hint = f"Leave {word}= out, or give dims, which make a sweep of their own."
            raise SpecError("no sweep here has this word", {"given": word, "have it": ", ".join(having)}, hint)
        return found

    def _spec_files(self) -> list[Path]:
        named = [self.root / word for word in self.values.get("specs", ("specs",))]
        files = []
        for path in named:
            if not path.exists():
                hint = "Make a specs/ directory with a TOML file, or give dims: doit m=512 n=512 k=512."
                raise SpecError("there are no specs here", {"looked for": path}, hint)
            if path.is_dir():
                if self._seen:
                    self._seen.look("stamp", _from_anywhere(path))
                files += _toml_files(path)
            else:
                files.append(path)
        if not files:
            raise SpecError(
                "there are no specs here", {"looked for": f"{named[0]}/*.toml"}, "Add a TOML file with a [[sweep]]."
            )
        return files

    def _reader(self, folder: Path) -> Read:
        return _Reader(self, folder)

    def _text(self, path: Path) -> str:
        try:
            return self.content(path).decode("utf-8-sig")  # some editors write a byte order mark
        except (OSError, UnicodeDecodeError) as error:
            raise SpecError(
                "this spec cannot be read", {"spec": path, "found": error}, "A spec is a TOML file in UTF-8."
            ) from error

    def digest(self, path: Path) -> Digest:
        """Return the digest of a file that may be large.

        Raises:
            OSError: the file cannot be read, or it is not a regular file.
        """
        # The stamp (size, times, …) is recorded: unlike a digest, it can be checked without reading the large file.
        if self._seen:
            self._seen.look("stamp", _from_anywhere(path))
        _check_regular(path)
        return digest_file(path)

    def entries(self, folder: Path) -> list[tuple[str, bool]]:
        """Return a pair (name, whether the entry is a folder) for each entry of `folder`, sorted by name.

        Raises:
            OSError: the folder cannot be read.
        """
        if self._seen:
            self._seen.look("stamp", _from_anywhere(folder))
        with os.scandir(folder) as entries:
            return sorted((entry.name, entry.is_dir()) for entry in entries)

    def content(self, path: Path) -> bytes:
        """Return the bytes of a file.

        Raises:
            OSError: the file cannot be read, or it is not a regular file. A pipe, for example, could block.
        """
        content = None
        try:
            _check_regular(path)
            content = path.read_bytes()
        finally:
            if self._seen:
                self._seen.see("file", _from_anywhere(path), ABSENT if content is None else digest_of(content))
        return content


@dataclass(frozen=True, slots=True)
class _Reader:
    sources: Sources
    folder: Path
    _plainer: dict[str, bool] = field(default_factory=dict)
    """A cache for `_plain`. A key is a path up to its last `..`.

    The value says whether the path names the same place if each `FOLDER/..` is removed from the path."""

    def __call__(self, name: str) -> tuple[str, bytes]:
        path = self.folder / name
        return self._plain(path), self.sources.content(path)

    def digest(self, name: str) -> tuple[str, Digest]:
        path = self.folder / name
        return self._plain(path), self.sources.digest(path)

    def _plain(self, path: Path) -> str:
        """Return `path` without its parts `FOLDER/..`.

        If a FOLDER is a symbolic link, the shorter path may name another place. `path` is then returned unchanged."""
        plain, text = os.path.normpath(path), os.fspath(path)
        up = text[: text.rindex("..") + 2] if ".." in path.parts else ""
        if up not in self._plainer:
            self._plainer[up] = os.path.realpath(os.path.normpath(up)) == os.path.realpath(up)
        return plain if self._plainer[up] else text

    def entries(self, folder: str) -> list[tuple[str, bool]]:
        return self.sources.entries(self.folder / folder)


def _toml_files(folder: Path) -> list[Path]:
    try:
        names = os.listdir(folder)  # noqa: PTH208 (glob hides that a folder cannot be read)
    except OSError as error:
        facts = {"folder": folder, "found": error.strerror}
        raise SpecError(
            "the specs cannot be read", facts, f"Allow it: chmod u+rx {shlex.quote(str(folder))}."
        ) from error
    return [folder / name for name in sorted(names) if name.endswith(".toml") and not name.startswith(".")]


def _check_regular(path: Path) -> None:
    if path.exists() and not path.is_file():
        raise OSError("it is not a regular file")


def _from_anywhere(path: Path) -> str:
    """Return `path` as an absolute path that keeps each `..`.

    os.path.abspath would remove `LINK/..`, although LINK may be a symbolic link to another place."""
    return os.path.join(os.getcwd(), path)  # noqa: PTH109, PTH118 (of two strings)


def _relative(path: Path, root: Path) -> Path:
    return path.relative_to(root) if path.is_relative_to(root) else path
