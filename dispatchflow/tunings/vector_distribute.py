"""GPU vector distribution: a workgroup's tile shared out to subgroups and lanes; `LLVMGPUVectorDistribute`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from dispatchflow.operations import Operation
from dispatchflow.tunings._gpu import FORM, OPERANDS, MmaTiling

_COPY_BITS = 128  # what a thread copies to shared memory at a time


@dataclass(frozen=True, slots=True)
class VectorDistribute(MmaTiling):
    """Written as an op-level `compilation_info` for pipeline `VectorDistribute`. Of a promoted operand one
    size need not be a multiple."""

    family: ClassVar[str] = "vector_distribute"
    form: ClassVar[str] = f"vector_distribute{FORM}"
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
        ragged = self.ragged(operation, sizes)
        for i, rows, columns in self.promoted(operation):
            if ragged.keys() >= set(OPERANDS[i]):
                said = " and ".join(ragged[dim] for dim in OPERANDS[i])
                tile = " and ".join(str(self.tile[dim]) for dim in OPERANDS[i])
                why = f"and operand {i} is promoted (IREE 3.13: 'failed to distribute')"
                return f"{said} are both no multiple of the tile's {tile}, {why}"
            across = columns * operation.signature.operands[i].bits // _COPY_BITS
            copies = rows * across
            if copies > self.threads and (copies % self.threads or (self.threads % across and across % self.threads)):
                what = f"the {rows}x{columns} elements of promoted operand {i}"
                return (
                    f"{what} are not shared out evenly to {self.threads} threads (IREE 3.13: 'failed to derive layout')"
                )
        return None
