"""Shared code of the tuning families that use a user's transform-dialect file."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from dispatchflow.tunings.api import GIVEN, Applied, Tuning, TuningFile, configurations
from dispatchflow.workload import Workload

_SHOWN = 3
# These flags print the module after the pass that applies the file, before the compiler itself chooses configurations.
# The finally applied configurations do not show where they come from: the compiler's choice may equal the file's.
_WITNESS = ("--mlir-print-ir-after=iree-codegen-materialize-user-configs", f"--mlir-print-ir-tree-dir={GIVEN}")
_COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*')


@dataclass(frozen=True, slots=True)
class FileTuning(Tuning, ABC):
    """A tuning that consists of a user's transform-dialect file."""

    file: TuningFile

    file_parameter: ClassVar[str | None] = "file"

    @property
    def name(self) -> str:
        """The names of the family and the file, and 8 digits of the file's hash: `tuning_spec_my_0123abcd`."""
        return f"{self.family}_{named(self.file)}"

    @property
    def files(self) -> tuple[TuningFile, ...]:
        return (self.file,)

    def requested(self, operation: Workload) -> str:
        """Return the first three lowering configurations in the file as text.

        If the file has more configurations, the text also says how many more."""
        found = _configurations(self.file.text)
        more = f" or {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        return f"of {named(self.file)}: {' or '.join(found[:_SHOWN])}{more}"

    @property
    def flags(self) -> tuple[str, ...]:
        return (self.flag, *_WITNESS)

    @property
    @abstractmethod
    def flag(self) -> str:
        """The flag with which the compiler reads the file."""

    def ignored(self, operation: Workload, applied: Applied) -> str | None:
        """Return why the compiler used no configuration from the file, or None if it used one.

        There are two reasons: the file matched no op, or no matched op kept its configuration from the file."""
        named_here = set(_configurations(self.file.text))
        matched = named_here & set(applied.given)
        kept = {config for executable in applied.executables for _, config in executable.configurations}
        if matched & kept:
            return None
        name, text = named(self.file), applied.text or "nothing"
        if matched:
            return f"{name} matched an op, which did not keep {' or '.join(sorted(matched))}; applied {text}"
        same = ", the same as in the file" if named_here & kept else ""
        return f"{name} matched no op; the compiler's own choice{same}: {text}"


def check(file: TuningFile) -> None:
    """Check that the file has a lowering configuration.

    Without one, the compiler's output would not show whether the file was applied.

    Raises:
        ValueError: the file has no configuration."""
    if not _configurations(file.text):
        raise ValueError(f"{file.path} names no lowering_config, so nothing would show whether it was applied")


def named(file: TuningFile) -> str:
    return f"{file.title}_{file.digest[:8]}"


@lru_cache(maxsize=64)
def _configurations(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(configurations(_COMMENT.sub(r"\1", text))))
