"""Shared code of the tuning families that choose tile sizes for the matrix instructions of GPUs."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from dispatchflow.tunings import _tiles
from dispatchflow.tunings.api import Applied, Lowering, Operation, Release, Signature, Target, Tuning, canonical

_BACKENDS = ("cuda", "rocm")
_FORMS = {
    "mma": "an intrinsic",
    "workgroup": "[m, n]",
    "reduction": "k",
    "subgroups": "[m, n]",
    "promote": "[0, 1], [0], [1] or []",
    "stages": "a number",
}
_NAME = r"_(\d+)x(\d+)x(\d+)_(\d+)x(\d+)(?:_promote_(none|0|1))?(?:_stages_(\d+))?_([A-Z]\w+)"
FORM = (
    "_MxNxK_MxN_MMA: workgroup and reduction, subgroups, instruction; before the instruction _promote_none, _promote_0"
    " or _promote_1, then _stages_S; all above 0"
)
_MMA = re.compile(r"([A-Z]\w*?)_([A-Z]+\d+)_(\d+)x(\d+)x(\d+)_([A-Z]+\d\w*)")
_PROMOTED: dict[tuple[int, ...], str] = {(0, 1): "", (0,): "_promote_0", (1,): "_promote_1", (): "_promote_none"}

# The tensor-core tiles of IREE's former dispatch profiler: (workgroup's m, n and k, subgroups along m and along n). The
# profiler's numbers of stages, 3 to 10, are left out, because the code for CUDA no longer depends on them.
_TILES_16_BITS = (
    *((256, 128, 32, 4, 2), (128, 256, 32, 2, 4), (128, 128, 64, 2, 2), (128, 128, 32, 2, 2)),
    *((128, 64, 32, 2, 2), (64, 64, 64, 2, 2), (64, 64, 32, 2, 2)),
)
_TILES_32_BITS = (
    *((128, 256, 16, 2, 4), (256, 128, 16, 4, 2), (128, 128, 16, 2, 2), (128, 128, 32, 2, 2)),
    *((128, 64, 32, 2, 2), (128, 64, 16, 2, 2), (64, 64, 32, 2, 2), (64, 64, 16, 2, 2)),
)
# (dim of the rows, dim of the columns) of the left and of the right operand.
OPERANDS = (("m", "k"), ("k", "n"))
_FIRST = "NV_MMA_SYNC_F32_16x8x16_F16"


@dataclass(frozen=True, slots=True)
class Mma:
    """A matrix instruction: the tile sizes and element types that its name in IREE contains."""

    m: int
    n: int
    k: int
    accumulator: str
    operand: str

    @staticmethod
    def of(name: str) -> Mma | None:
        match = _MMA.fullmatch(name)
        return Mma(int(match[3]), int(match[4]), int(match[5]), match[2], match[6]) if match else None

    def multiplies(self, types: Signature) -> bool:
        operands = {operand.mlir.upper() for operand in types.operands}
        return (operands, types.accumulator.mlir.upper()) == ({self.operand}, self.accumulator)


@dataclass(frozen=True, slots=True)
class MmaTiling(Tuning, ABC):
    """The tile sizes for a matrix product that uses a GPU's matrix instruction."""

    mma: str
    """IREE's name of the instruction, such as `NV_MMA_SYNC_F32_16x8x16_F16`."""
    workgroup: tuple[int, int]
    """The tile of a workgroup, [m, n], in elements."""
    reduction: int
    """The size of a workgroup's tile along k, in elements."""
    subgroups: tuple[int, int]
    """The number of subgroups in a workgroup along m, and along n."""
    promote: tuple[int, ...] = (0, 1)
    """The operands that are copied to shared memory: 0 is the left operand, 1 the right operand."""
    stages: int | None = None
    """The number of stages of the software pipeline.

    1 means no pipeline. None means that the compiler chooses the number."""

    pipeline: ClassVar[str]

    @classmethod
    def expand(cls, parameters: Mapping[str, Any]) -> tuple[Tuning, ...]:
        """Return the requested tuning, or one tuning for each predefined set of tile sizes.

        The predefined sets are used if `parameters` is empty or has only `mma` (the instruction).

        Raises:
            ValueError: a parameter is unknown, missing or out of range."""
        name = parameters.get("mma", _FIRST)
        mma = Mma.of(name) if isinstance(name, str) else None
        if mma is None:
            raise ValueError(f"mma = {name!r}; expected an intrinsic's name, such as {_FIRST}")
        if not set(parameters) - {"mma"}:
            tiles = _TILES_32_BITS if mma.operand in ("F32", "F64") else _TILES_16_BITS
            return tuple(cls(name, (m, n), k, (along_m, along_n)) for m, n, k, along_m, along_n in tiles)
        _tiles.check_names(parameters, _FORMS, optional=("promote", "stages"))
        (wm, wn), (sm, sn) = (_tiles.sizes(word, parameters[word], _FORMS[word]) for word in ("workgroup", "subgroups"))
        (k,) = _tiles.sizes("reduction", parameters["reduction"], "k")
        promote = tuple(parameters.get("promote", (0, 1)))
        if promote not in _PROMOTED:
            raise ValueError(f"promote = {list(promote)}; expected {_FORMS['promote']}")
        stages = None if "stages" not in parameters else _tiles.sizes("stages", parameters["stages"], "a number")[0]
        return (cls(name, (wm, wn), k, (sm, sn), promote, stages),)

    @classmethod
    def parse(cls, word: str) -> Tuning | None:
        if (match := re.fullmatch(cls.family + _NAME, word)) is None or Mma.of(match[8]) is None:
            return None
        wm, wn, k, sm, sn = (int(group) for group in match.groups()[:5])
        promote = next(
            operands for operands, text in _PROMOTED.items() if text == f"_promote_{match[6]}" * bool(match[6])
        )
        tuning = cls(match[8], (wm, wn), k, (sm, sn), promote, int(match[7]) if match[7] else None)
        return tuning if tuning.name == word and min(wm, wn, k, sm, sn, tuning.stages or 1) > 0 else None

    @property
    def name(self) -> str:
        (wm, wn), (sm, sn) = self.workgroup, self.subgroups
        stages = "" if self.stages is None else f"_stages_{self.stages}"
        return f"{self.family}_{wm}x{wn}x{self.reduction}_{sm}x{sn}{_PROMOTED[self.promote]}{stages}_{self.mma}"

    @property
    def _mma(self) -> Mma:
        found = Mma.of(self.mma)
        assert found is not None  # expand and parse accept no other names
        return found

    @property
    def _subgroup_size(self) -> int:
        return 64 if self.mma.startswith("MFMA") else 32

    @abstractmethod
    def levels(self, operation: Operation) -> dict[str, str]:
        """Return the tile sizes inside a workgroup's tile, as entries of IREE's lowering configuration.

        The result is a dict from the name of each entry, such as `reduction`, to the text of its value."""

    def per_loop(self, operation: Operation, **sizes: int) -> str:
        return f"[{', '.join(str(sizes.get(loop.dim, 0)) for loop in operation.loops)}]"

    def _configuration(self, operation: Operation) -> str:
        (m, n), entries = self.workgroup, self.levels(operation)
        entries |= {
            "mma_kind": f"#iree_gpu.mma_layout<{self.mma}>",
            "workgroup": self.per_loop(operation, b=1, m=m, n=n),
        }
        entries |= {"promote_operands": str(list(self.promote))} if self.promote else {}
        return canonical(", ".join(f"{name} = {value}" for name, value in entries.items()))

    @property
    def _translation(self) -> str:
        text = f"workgroup_size = [{self.threads}, 1, 1] subgroup_size = {self._subgroup_size}"
        options = f"#iree_gpu.pipeline_options<prefetch_num_stages = {self.stages}>"
        return text if self.stages is None else f"{text}, gpu_pipeline_options = {options}"

    def lowering(self, operation: Operation, syntax: Release) -> Lowering:
        sizes, *options = self._translation.split(", gpu_pipeline_options", 1)
        dictionary = f", {{gpu_pipeline_options{options[0]}}}" if options else ""
        return _tiles.lowering(
            f"#iree_gpu.lowering_config<{{{self._configuration(operation)}}}>",
            f"#iree_gpu.pipeline<{self.pipeline}> {sizes}{dictionary}",
        )

    def unknown_to(self, backend: str) -> str | None:
        if backend not in _BACKENDS:
            return f"{self.family} is a configuration of {' and '.join(_BACKENDS)}, not of {backend}"
        return None

    def illegal(self, operation: Operation, backend: str) -> str | None:
        (m, n, k), (along_m, along_n) = self.tile.values(), self.subgroups
        if {loop.dim for loop in operation.loops} | {"b"} != {"b", "m", "n", "k"}:
            return f"{self.family} needs a product over b, m, n and k; {operation.name} is not one"
        if any(size % self.unit[dim] for dim, size in self.tile.items()):
            unit = "x".join(map(str, self.unit.values()))
            return f"a tile of {m}x{n}x{k} is not a multiple of {along_m}x{along_n} subgroups' instructions, {unit}"
        return None

    @property
    def threads(self) -> int:
        return self.subgroups[0] * self.subgroups[1] * self._subgroup_size

    def known(self, operation: Operation) -> dict[str, int]:
        """Return a dict from the name of each static dimension of the operation to its size."""
        return {loop.dim: loop.size for loop in operation.loops if loop.dim not in operation.dynamic_dims}

    @property
    def tile(self) -> dict[str, int]:
        return {"m": self.workgroup[0], "n": self.workgroup[1], "k": self.reduction}

    @property
    def instruction(self) -> dict[str, int]:
        return {"m": self._mma.m, "n": self._mma.n, "k": self._mma.k}

    @property
    def unit(self) -> dict[str, int]:
        """The tile that a workgroup computes if each subgroup executes one instruction.

        It is a dict from the name of each dimension (m, n and k) to the size."""
        along = {"m": self.subgroups[0], "n": self.subgroups[1]}
        return {dim: along.get(dim, 1) * size for dim, size in self.instruction.items()}

    def exceeds(self, operation: Operation, target: Target) -> str | None:
        if (gpu := target.gpu) is None:
            return f"the limits of {target.name} are not known"
        types, mma = operation.signature, self._mma
        if self.mma not in gpu.mma or not mma.multiplies(types):
            fitting = [name for name in gpu.mma if (known := Mma.of(name)) and known.multiplies(types)]
            hint = f"write mma = {' or '.join(fitting)}" if fitting else f"{target.name} has none for {types.spelling}"
            if self.mma not in gpu.mma:
                return f"{target.name} has no {self.mma}; {hint}"
            return f"{self.mma} multiplies {mma.operand} into {mma.accumulator}, not {types.spelling}; {hint}"
        if self.threads > gpu.threads:
            return f"needs {self.threads} threads in a workgroup; {target.name} has {gpu.threads}"
        if (needed := self._shared_bytes(operation)) > gpu.shared_memory_bytes:
            return f"needs {needed} B of shared memory; {target.name} has {gpu.shared_memory_bytes}"
        return None

    def _shared_bytes(self, operation: Operation) -> int:
        """Return the size, in bytes, of the operands' tiles that a workgroup copies to shared memory.

        The workgroup needs at least this much shared memory."""
        known, size = self.known(operation), 0
        tile = {dim: min(extent, known.get(dim, extent)) for dim, extent in self.tile.items()}
        for i in self.promote:
            rows, columns = OPERANDS[i]
            size += tile[rows] * tile[columns] * operation.signature.operands[i].bits // 8
        return size

    def inexpressible(self, syntax: Release, target: Target) -> str | None:
        return None if syntax.has_gpu_pipelines else f"{syntax} has other pipelines and intrinsics for GPUs"

    def requested(self, operation: Operation) -> str:
        return f"{self.pipeline} {self._translation} {self._configuration(operation)}"

    def ignored(self, operation: Operation, applied: Applied) -> str | None:
        return _tiles.ignored(self.pipeline, self._translation, self._configuration(operation), applied)
