"""A user's own transform-dialect library: `--iree-codegen-transform-dialect-library`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from dispatchflow.tunings._tuning_file import FileTuning, check, named
from dispatchflow.tunings.api import Tuning

_ENTRY = "__kernel_config"


@dataclass(frozen=True, slots=True)
class TransformLibrary(FileTuning):
    entry: str = _ENTRY
    """The name of a transform sequence in the file. The compiler runs this sequence on each executable."""

    family: ClassVar[str] = "transform_library"
    form: ClassVar[str] = "transform_library:FILE"

    @classmethod
    def expand(cls, parameters: Mapping[str, Any]) -> tuple[Tuning, ...]:
        if not parameters:
            return ()
        if unknown := sorted(set(parameters) - {"file", "entry"}):
            raise ValueError(f'unknown parameter \'{unknown[0]}\'; allowed are file = "my.mlir", entry = "{_ENTRY}"')
        check(parameters["file"])
        entry = parameters.get("entry", _ENTRY)
        if not isinstance(entry, str) or not re.fullmatch(r"\w+", entry, re.ASCII):
            raise ValueError(f"entry = {entry!r}; expected the name of a sequence, without @")
        return (cls(parameters["file"], entry),)

    @property
    def name(self) -> str:
        """The name of the tuning, such as `transform_library_my_0123abcd` for the file `my.mlir`.

        `0123abcd` is the beginning of the hash of the file's text. If `entry` is not the default, the entry
        follows after a dot: `transform_library_my_0123abcd.main`."""
        entry = "" if self.entry == _ENTRY else f".{self.entry}"
        return f"{self.family}_{named(self.file)}{entry}"

    @property
    def flag(self) -> str:
        return f"--iree-codegen-transform-dialect-library={self.file.name}@{self.entry}"
