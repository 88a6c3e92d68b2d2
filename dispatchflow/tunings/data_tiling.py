"""Operands packed into tiles before the product, results unpacked after it: `--iree-opt-data-tiling`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from dispatchflow.operations import Operation
from dispatchflow.tunings._base import Applied, Tuning


@dataclass(frozen=True, slots=True)
class DataTiling(Tuning):
    family: ClassVar[str] = "data_tiling"

    @classmethod
    def expand(cls, parameters: Mapping[str, Any]) -> tuple[Tuning, ...]:
        if parameters:
            raise ValueError("takes no parameters")
        return (cls(),)

    @property
    def name(self) -> str:
        return self.family

    @property
    def flags(self) -> tuple[str, ...]:
        return ("--iree-opt-data-tiling",)

    def requested(self, operation: Operation) -> str | None:
        return "--iree-opt-data-tiling"

    def ignored(self, operation: Operation, applied: Applied) -> str | None:
        # The packing itself is the proof: its executables carry the encoding in their names (IREE 3.13),
        # or, where packing was fused away, the product is an mmt4d.
        if any("encod" in e.name or "Mmt4d" in e.pipeline for e in applied.executables):
            return None
        return "the compiler packed nothing: no encoding and no mmt4d in its dump"
