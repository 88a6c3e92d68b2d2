"""A user's own tuning spec: `--iree-codegen-tuning-spec-path`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from dispatchflow.tunings._tuning_file import FileTuning, check
from dispatchflow.tunings.api import Release, Target, Tuning


@dataclass(frozen=True, slots=True)
class TuningSpec(FileTuning):
    """A user's file whose `transform.foreach_match` sets the `compilation_info` of matching ops."""

    family: ClassVar[str] = "tuning_spec"
    form: ClassVar[str] = "tuning_spec:FILE"

    @classmethod
    def expand(cls, parameters: Mapping[str, Any]) -> tuple[Tuning, ...]:
        if not parameters:
            return ()
        if unknown := sorted(set(parameters) - {"file"}):
            raise ValueError(f"unknown parameter '{unknown[0]}'; allowed is file = \"my_spec.mlir\"")
        check(parameters["file"])
        return (cls(parameters["file"]),)

    @property
    def flag(self) -> str:
        return f"--iree-codegen-tuning-spec-path={self.file.name}"

    def inexpressible(self, syntax: Release, target: Target) -> str | None:
        if syntax.reads_tuning_spec(target.backend):
            return None
        library = "transform_library:FILE, with @__kernel_config"
        return f"{syntax} reads no tuning spec for {target.backend}; it reads a library: {library}"
