"""GPU vector distribution: a workgroup's tile shared out to subgroups and lanes; `LLVMGPUVectorDistribute`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from dispatchflow.operations import Operation
from dispatchflow.tunings._gpu import OPERANDS, MmaTiling


@dataclass(frozen=True, slots=True)
class VectorDistribute(MmaTiling):
    """Written as an op-level `compilation_info` for pipeline `VectorDistribute`. Of a promoted operand one
    size need not be a multiple."""

    family: ClassVar[str] = "vector_distribute"
    pipeline: ClassVar[str] = "VectorDistribute"
    pipelines_unpromoted: ClassVar[bool] = True

    def levels(self, operation: Operation) -> dict[str, str]:
        counts = {"m": self.subgroups[0], "n": self.subgroups[1]}
        basis = [counts.get(loop.dim, 1) for loop in operation.loops]
        return {
            "subgroup_basis": f"[{basis}, {list(range(len(basis)))}]",
            "reduction": self.per_loop(operation, k=self.reduction),
        }

    def misfit(self, operation: Operation, sizes: Mapping[str, int], backend: str) -> str | None:
        for dim, size in self.tile.items():
            if sizes[dim] < size:
                return f"{dim} = {sizes[dim]} is less than the tile's {size} (IREE 3.13: 'failed to distribute')"
        ragged = {dim for dim, size in self.tile.items() if sizes[dim] % size}
        for i in self.promote:
            if ragged.issuperset(OPERANDS[i]):
                tile = (str(self.tile[dim]) for dim in OPERANDS[i])
                one, other = (f"{dim} = {sizes[dim]}" for dim in OPERANDS[i])
                what = f"{one} and {other} are both no multiple of the tile's {' and '.join(tile)}"
                return f"{what}, and operand {i} is promoted (IREE 3.13: 'failed to distribute')"
        return None
