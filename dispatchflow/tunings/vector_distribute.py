"""GPU vector distribution: a workgroup's tile shared out to subgroups and lanes; `LLVMGPUVectorDistribute`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from dispatchflow.operations import Operation
from dispatchflow.tunings._gpu import MmaTiling


@dataclass(frozen=True, slots=True)
class VectorDistribute(MmaTiling):
    """Written as an op-level `compilation_info` for pipeline `VectorDistribute`. Sizes need not be multiples."""

    family: ClassVar[str] = "vector_distribute"
    pipeline: ClassVar[str] = "VectorDistribute"

    def levels(self, operation: Operation) -> dict[str, str]:
        counts = {"m": self.subgroups[0], "n": self.subgroups[1]}
        basis = [counts.get(loop.dim, 1) for loop in operation.loops]
        return {
            "subgroup_basis": f"[{basis}, {list(range(len(basis)))}]",
            "reduction": self.per_loop(operation, k=self.reduction),
        }

    def misfit(self, sizes: Mapping[str, int], tile: Mapping[str, int]) -> str | None:
        for dim, size in tile.items():
            if sizes[dim] < size:
                return f"{dim} = {sizes[dim]} is less than the tile's {size} (IREE 3.13: 'failed to distribute')"
        return None
