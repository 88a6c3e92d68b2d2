"""Vector distribution for GPUs: the tile of a workgroup is divided among lanes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dispatchflow.tunings._matrix_instructions import FORM, MmaTiling
from dispatchflow.tunings.api import Operation


@dataclass(frozen=True, slots=True)
class VectorDistribute(MmaTiling):
    """A tiling for the pipeline `VectorDistribute`.

    The operation's sizes need not be multiples of the tile."""

    family: ClassVar[str] = "vector_distribute"
    form: ClassVar[str] = f"vector_distribute{FORM}"
    pipeline: ClassVar[str] = "VectorDistribute"

    def levels(self, operation: Operation) -> dict[str, str]:
        counts = {"m": self.subgroups[0], "n": self.subgroups[1]}
        basis = [counts.get(loop.dim, 1) for loop in operation.loops]
        return {
            "subgroup_basis": f"[{basis}, {list(range(len(basis)))}]",
            "reduction": self.per_loop(operation, k=self.reduction),
        }
