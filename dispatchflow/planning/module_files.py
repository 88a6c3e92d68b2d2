"""Find the functions of a user's MLIR or ONNX file, and the other files to which it refers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from dispatchflow.cases import module
from dispatchflow.cases.module import File
from dispatchflow.errors import SpecError, suggestion
from dispatchflow.keys import digest_of
from dispatchflow.mlir.functions import functions, is_bytecode, mentions
from dispatchflow.models import onnx_file
from dispatchflow.workload import ENTRY

if TYPE_CHECKING:
    from dispatchflow.planning.location import Location
    from dispatchflow.planning.reading import Read

_SHOWN = 10
"""The largest number of functions that an error message lists."""


class NoFunction(SpecError):
    """A sweep names a function that its file does not have. `public` lists the file's public functions."""

    def __init__(self, entry: str, public: list[str], facts: Mapping[str, object]) -> None:
        shown = ", ".join(public[:_SHOWN]) + (f", and {len(public) - _SHOWN} more" if len(public) > _SHOWN else "")
        super().__init__(
            f"no public function '{entry}'", {**facts, "functions": shown or "none"}, suggestion(entry, public)
        )
        self.public = public


def objects(name: str, content: bytes, read: Read, importer: str | None) -> tuple[tuple[str, File], ...]:
    """Return a pair (path, file) for each file to which a user's MLIR or ONNX file refers.

    An MLIR file refers to object files (machine code), and an ONNX file refers to files with weights. `path` is spelt
    as in the user's file. A file that cannot be read is left out. `name` and `content` are the path and the bytes of
    the user's file. `importer` is `onnx` for an ONNX file, and None for an MLIR file."""
    found = []
    named = onnx_file.weight_files(content) if importer else module.objects(content.decode(errors="replace"))
    for written in named:
        with suppress(OSError, ValueError):  # if the file is needed, the stage `emit` fails later
            path, linked = read(os.path.join(os.path.dirname(name), written))  # noqa: PTH118, PTH120 (`..` stays)
            found.append((written, File(path, digest_of(linked))))
    return tuple(found)


def entries(wanted: list[str], content: bytes, name: str, place: Location, importer: str | None) -> list[str]:
    """Return which functions of a user's MLIR or ONNX file become cases.

    If `wanted` is empty, all public functions become cases.

    Raises:
        NoFunction: a function in `wanted` was not found.
        SpecError: `content` is MLIR bytecode, and `wanted` is empty.
    """
    text = "" if importer else content.decode(errors="replace")
    public = [onnx_file.function(content)] if importer else functions(text)
    if not wanted:
        if not public and not is_bytecode(content):
            return [ENTRY]  # the file may have an error, which this one case then reports
        if not public:
            facts = {"spec": place.at("file"), "file": name}
            raise SpecError(
                "the functions of bytecode cannot be listed", facts, f"Name one: {place.spelt('function', 'main')}."
            )
        return public
    for entry in wanted if public else ():  # for bytecode, `public` is empty and nothing can be checked
        if entry not in public and not mentions(text, entry):  # a name that the text mentions: `emit` checks it later
            raise NoFunction(entry, public, {"spec": place.at("function"), "file": name})
    return wanted
