"""GPU vector distribution: a workgroup's tile shared out to subgroups and lanes; `LLVMGPUVectorDistribute`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from dispatchflow.operations import Operation
from dispatchflow.tunings._gpu import FORM, OPERANDS, MmaTiling

_COPY_BITS = 128  # what a thread copies to shared memory at a time


@dataclass(frozen=True, slots=True)
class VectorDistribute(MmaTiling):
    """Written as an op-level `compilation_info` for pipeline `VectorDistribute`. Sizes need not be
    multiples of the tile."""

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

    def misfit(self, operation: Operation, backend: str) -> str | None:
        known, tile, cut, short = self.known(operation), self.fitted(operation), dict[str, str](), dict[str, str]()
        for dim, said in self.ragged(operation).items():
            if dim not in known or known[dim] > self.tile[dim]:
                cut[dim] = f"{said} is no multiple of the tile's {self.tile[dim]}"
            elif known[dim] % self.unit[dim]:
                short[dim] = f"{said} is no multiple of the subgroups' {self.unit[dim]}"
        uneven = {**short, **cut}
        for what, dims in self._judged(tile, cut, short):
            if uneven.keys() >= set(dims) and cut.keys() & dims:
                return f"{' and '.join(uneven[dim] for dim in dims)}, of {what} (IREE 3.13: 'failed to distribute')"
        return self._unshared(operation)

    def _judged(
        self, tile: Mapping[str, int], cut: Collection[str], short: Collection[str]
    ) -> Iterator[tuple[str, tuple[str, str]]]:
        """What the compiler does not distribute where both its dims are uneven and one ends in a tile that is cut off:
        promoted operands; but square ones, promoted or not, where the sum is cut off and some operand is promoted or
        the result is square too; the result where a dim is less than a tile."""
        for i, dims in enumerate(OPERANDS):
            square = tile[dims[0]] == tile[dims[1]]
            if ("k" in cut and (self.promote or tile["m"] == tile["n"])) if square else i in self.promote:
                yield f"operand {i}", dims
        if not {"m", "n"}.isdisjoint(short):
            yield "the result", ("m", "n")

    def _unshared(self, operation: Operation) -> str | None:
        for i, rows, columns in self.promoted(operation):
            across = columns * operation.signature.operands[i].bits // _COPY_BITS
            copies = rows * across
            if copies > self.threads and (copies % self.threads or (self.threads % across and across % self.threads)):
                what = f"the {rows}x{columns} elements of promoted operand {i}, {across} pieces of 16 B a row,"
                return (
                    f"{what} are not shared out evenly to {self.threads} threads (IREE 3.13: 'failed to derive layout')"
                )
        return None
