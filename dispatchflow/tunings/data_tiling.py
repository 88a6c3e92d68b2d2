"""Operands packed into tiles before the product, results unpacked after it: `--iree-opt-data-tiling`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dispatchflow.operations import Operation
from dispatchflow.tunings._base import Applied, Tuning
from dispatchflow.types import ElementType

_PACKED = ("matmul", "batch_matmul", "matvec", "vecmat")


@dataclass(frozen=True, slots=True)
class DataTiling(Tuning):
    family: ClassVar[str] = "data_tiling"

    @property
    def flags(self) -> tuple[str, ...]:
        return ("--iree-opt-data-tiling",)

    def illegal(self, operation: Operation, backend: str) -> str | None:
        if operation.name not in _PACKED:
            return f"data tiling packs {', '.join(_PACKED)}, not {operation.name}"
        if backend == "vmvx" and ElementType.BF16 in operation.signature.operands and _pads(operation):
            return "vmvx cannot pad bf16 to tiles of 8x8x4 (IREE 3.13: bf16 constants are refused)"
        if backend == "vmvx" and "vec" in operation.name and ElementType.BF16 in operation.signature.operands:
            return "vmvx cannot pack a bf16 vector (IREE 3.13: bf16 constants are refused)"
        return None

    def requested(self, operation: Operation) -> str | None:
        return "--iree-opt-data-tiling"

    def ignored(self, operation: Operation, applied: Applied) -> str | None:
        # The packing itself is the proof: its executables carry the encoding in their names (IREE 3.13),
        # or, where packing was fused away, the product is an mmt4d.
        if any("encod" in e.name or "Mmt4d" in e.pipeline for e in applied.executables):
            return None
        return "the compiler packed nothing: no encoding and no mmt4d in its dump"


def _pads(operation: Operation) -> bool:
    """Whether vmvx's tiles do not cut m, n and k evenly: 8x8x4, one side of it 1, 2 or 4 where the product is that
    narrow (IREE 3.13, found by trying sizes)."""
    sizes = dict(zip(operation.dims, operation.sizes, strict=True))
    m, n, k = (sizes.get(dim, 1) for dim in "mnk")
    return bool(k % 4) or not any(a % 8 == 0 and (b % 8 == 0 or b in (1, 2, 4)) for a, b in ((m, n), (n, m)))
