"""GPU tile-and-fuse: tiles of workgroup and subgroup in units of a matrix instruction; `LLVMGPUTileAndFuse`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dispatchflow.operations import Operation
from dispatchflow.tunings._gpu import FORM, MmaTiling

# By compiling some 700 products of every backend, width and layout, 1 to 3 tiles large.
_NOT_BUFFERIZED = "(IREE 3.13: 'op was not bufferized')"


@dataclass(frozen=True, slots=True)
class TileAndFuse(MmaTiling):
    """Written as an op-level `compilation_info` for pipeline `TileAndFuse`, the compiler's default for products."""

    family: ClassVar[str] = "tile_and_fuse"
    form: ClassVar[str] = f"tile_and_fuse{FORM}"
    pipeline: ClassVar[str] = "TileAndFuse"
    pipelines_unpromoted: ClassVar[bool] = False

    def levels(self, operation: Operation) -> dict[str, str]:
        (wm, wn), (sm, sn), mma = self.workgroup, self.subgroups, self._mma
        return {
            "subgroup": self.per_loop(operation, m=wm // sm // mma.m, n=wn // sn // mma.n),
            "reduction": self.per_loop(operation, k=self.reduction // mma.k),
        }

    def fitted(self, operation: Operation) -> dict[str, int]:
        """Of a smaller dim what there is. What a padded result takes of shared memory is left to the compiler."""
        known = self.known(operation)
        return {dim: min(size, known.get(dim, size)) for dim, size in self.tile.items()}

    def misfit(self, operation: Operation, backend: str) -> str | None:
        known, uneven = self.known(operation), self.ragged(operation)
        one_step = known.get("k", self.reduction + 1) <= self.reduction
        for dim, said in uneven.items():
            tile, share = self.tile[dim], self.tile[dim] // self.unit[dim]
            if dim not in known or (dim != "k" and known[dim] > tile):
                # The last tile is cut off: that is compiled only of loops with one iteration.
                if dim == "k" or share > 1 or not one_step:
                    return f"{said} is no multiple of the tile's {tile} {_NOT_BUFFERIZED}"
            elif (count := -(-known[dim] // self.instruction[dim])) > share and count % share:
                whose = "a step" if dim == "k" else "a subgroup"
                return f"{said} takes {count} instructions, no multiple of the {share} of {whose} {_NOT_BUFFERIZED}"
        if (
            backend == "cuda"
            and (uneven.keys() <= {"k"} and (one_step or not uneven))
            and operation.options.keys() >= {"accumulate", "epilogue"}
            and (operation.option("accumulate"), operation.option("epilogue")) == ("yes", "none")
        ):
            return "cuda cannot accumulate with tile_and_fuse and no epilogue (IREE 3.13: 'failed to bufferize op')"
        return None
