"""A tuning spec of one's own: `--iree-codegen-tuning-spec-path`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from dispatchflow.program import Program
from dispatchflow.tunings import _given
from dispatchflow.tunings._base import Applied, GivenFile, Tuning


@dataclass(frozen=True, slots=True)
class TuningSpec(Tuning):
    """What iree-tuner writes, or a person: `transform.foreach_match` from ops to their `compilation_info`."""

    file: GivenFile

    family: ClassVar[str] = "tuning_spec"
    file_parameter: ClassVar[str | None] = "file"
    of_any_program: ClassVar[bool] = True

    @classmethod
    def expand(cls, parameters: Mapping[str, Any]) -> tuple[Tuning, ...]:
        if not parameters:
            return ()
        if unknown := sorted(set(parameters) - {"file"}):
            raise ValueError(f"unknown parameter '{unknown[0]}'; allowed is file = \"my_spec.mlir\"")
        _given.check(parameters["file"])
        return (cls(parameters["file"]),)

    @property
    def name(self) -> str:
        return f"{self.family}_{_given.named(self.file)}"

    @property
    def files(self) -> tuple[GivenFile, ...]:
        return (self.file,)

    @property
    def flags(self) -> tuple[str, ...]:
        return (f"--iree-codegen-tuning-spec-path={self.file.name}",)

    def requested(self, operation: Program) -> str:
        return _given.requested(self.file)

    def ignored(self, operation: Program, applied: Applied) -> str | None:
        return _given.ignored(self.file, applied)
