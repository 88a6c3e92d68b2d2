"""What tunings from outside share: a file in the transform dialect that gives ops their lowering configuration."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from dispatchflow.attributes import configurations
from dispatchflow.program import Program
from dispatchflow.tunings._base import Applied, GivenFile, Tuning

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class GivenTuning(Tuning):
    file: GivenFile

    file_parameter: ClassVar[str | None] = "file"
    of_any_program: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """`tuning_spec_my_0123abcd`"""
        return f"{self.family}_{named(self.file)}"

    @property
    def files(self) -> tuple[GivenFile, ...]:
        return (self.file,)

    def requested(self, operation: Program) -> str:
        """The configurations that it has to give; of many the first."""
        found = _configurations(self.file.text)
        more = f" or {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        return f"of {named(self.file)}: {' or '.join(found[:_SHOWN])}{more}"

    def ignored(self, operation: Program, applied: Applied) -> str | None:
        """Why none of its configurations is among those that were applied, None when one is."""
        found = _configurations(self.file.text)
        if any(config in found for executable in applied.executables for _, config in executable.configurations):
            return None
        return f"{named(self.file)} matched nothing: it has {len(found)} to give; applied {applied.text or 'nothing'}"


def check(file: GivenFile) -> None:
    """Raises:
    ValueError: it names no configuration, so that nothing could tell whether it was applied.
    """
    if not _configurations(file.text):
        raise ValueError(f"{file.path} names no lowering_config, so that nothing tells whether it was applied")


def named(file: GivenFile) -> str:
    return f"{file.title}_{file.digest[:8]}"


@lru_cache(maxsize=64)
def _configurations(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(configurations(text)))
