"""A transform-dialect library of one's own: `--iree-codegen-transform-dialect-library`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from dispatchflow.program import Program
from dispatchflow.tunings import _given
from dispatchflow.tunings._base import Applied, GivenFile, Tuning

_ENTRY = "__kernel_config"


@dataclass(frozen=True, slots=True)
class TransformLibrary(Tuning):
    """`entry` is the named sequence that the compiler runs on each executable."""

    file: GivenFile
    entry: str = _ENTRY

    family: ClassVar[str] = "transform_library"
    file_parameter: ClassVar[str | None] = "file"
    of_any_program: ClassVar[bool] = True

    @classmethod
    def expand(cls, parameters: Mapping[str, Any]) -> tuple[Tuning, ...]:
        if not parameters:
            return ()
        if unknown := sorted(set(parameters) - {"file", "entry"}):
            raise ValueError(f'unknown parameter \'{unknown[0]}\'; allowed are file = "my.mlir", entry = "{_ENTRY}"')
        _given.check(parameters["file"])
        entry = parameters.get("entry", _ENTRY)
        if not isinstance(entry, str) or not re.fullmatch(r"\w+", entry, re.ASCII):
            raise ValueError(f"entry = {entry!r}; expected the name of a sequence, without @")
        return (cls(parameters["file"], entry),)

    @property
    def name(self) -> str:
        """`transform_library_my_0123abcd`, and `.entry` where it is another."""
        entry = "" if self.entry == _ENTRY else f".{self.entry}"
        return f"{self.family}_{_given.named(self.file)}{entry}"

    @property
    def files(self) -> tuple[GivenFile, ...]:
        return (self.file,)

    @property
    def flags(self) -> tuple[str, ...]:
        return (f"--iree-codegen-transform-dialect-library={self.file.name}@{self.entry}",)

    def requested(self, operation: Program) -> str:
        return _given.requested(self.file)

    def ignored(self, operation: Program, applied: Applied) -> str | None:
        return _given.ignored(self.file, applied)
