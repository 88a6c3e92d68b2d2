"""Operands packed into tiles before the product, results unpacked after it: `--iree-opt-data-tiling`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dispatchflow.operations import Operation
from dispatchflow.tunings._base import Applied, Tuning
from dispatchflow.types import ElementType

_PACKED = ("matmul", "batch_matmul", "chain", "matvec", "vecmat")
_PADDED = ("chain", "matvec", "vecmat")


@dataclass(frozen=True, slots=True)
class DataTiling(Tuning):
    family: ClassVar[str] = "data_tiling"
    keeps_dispatches: ClassVar[bool] = False

    @property
    def flags(self) -> tuple[str, ...]:
        return ("--iree-opt-data-tiling",)

    def illegal(self, operation: Operation, backend: str) -> str | None:
        if operation.name not in _PACKED:
            return f"data tiling packs {', '.join(_PACKED)}, not {operation.name}"
        if backend == "vmvx" and operation.name in _PADDED and ElementType.BF16 in operation.signature.operands:
            return f"vmvx cannot pack the bf16 of a {operation.name} (IREE 3.13: bf16 constants are refused)"
        return None

    def requested(self, operation: Operation) -> str | None:
        return "--iree-opt-data-tiling"

    def ignored(self, operation: Operation, applied: Applied) -> str | None:
        # The packing itself is the proof: its executables carry the encoding in their names (IREE 3.13),
        # or, where packing was fused away, the product is an mmt4d.
        if any("encod" in e.name or "Mmt4d" in e.pipeline for e in applied.executables):
            return None
        return "the compiler packed nothing: no encoding and no mmt4d in its dump"
