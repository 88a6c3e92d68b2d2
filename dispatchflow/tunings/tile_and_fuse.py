"""Tile-and-fuse for GPUs: tiles of workgroups and subgroups, and matrix instructions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dispatchflow.tunings._matrix_instructions import FORM, MmaTiling
from dispatchflow.tunings.api import Operation


@dataclass(frozen=True, slots=True)
class TileAndFuse(MmaTiling):
    """A tiling for the pipeline `TileAndFuse`, the compiler's default for products."""

    family: ClassVar[str] = "tile_and_fuse"
    form: ClassVar[str] = f"tile_and_fuse{FORM}"
    pipeline: ClassVar[str] = "TileAndFuse"

    def levels(self, operation: Operation) -> dict[str, str]:
        (wm, wn), (sm, sn), mma = self.workgroup, self.subgroups, self._mma
        return {
            "subgroup": self.per_loop(operation, m=wm // sm // mma.m, n=wn // sn // mma.n),
            "reduction": self.per_loop(operation, k=self.reduction // mma.k),
        }
