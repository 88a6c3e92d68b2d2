"""Operands packed into tiles before the product, results unpacked after it: `--iree-opt-data-tiling`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

from dispatchflow.operations import Operation
from dispatchflow.syntax import Syntax
from dispatchflow.targets import Target
from dispatchflow.tunings._base import Applied, Tuning
from dispatchflow.tunings._gpu import Mma
from dispatchflow.types import ElementType

_BACKENDS = ("llvm-cpu", "vmvx", "rocm")
_PACKED = ("matmul", "batch_matmul", "chain", "matvec", "vecmat", "quantized_matmul")
_VECTORS = ("matvec", "vecmat")
# Of these llvm-cpu has no tiles, on x86-64 and aarch64 (IREE 3.9 to 3.13).
_WHOLE_ON_CPU = (ElementType.F64, ElementType.I64, ElementType.I32)
# What a product becomes once its operands are tiles: on llvm-cpu and vmvx, the same of a batch, on rocm.
_OF_TILES = {"mmt4d", "batch_mmt4d", "inner_tiled"}
_PADDED = ("chain", *_VECTORS)

# --iree-opt-data-tiling takes the path that begins where dispatches are formed: same bytes (IREE 3.13).
_PATHS = {"dispatch_creation": "--iree-opt-data-tiling", "global_opt": "--iree-global-opt-data-tiling"}
_UKERNELS = ("default", "none", "all")
_VALUES = {"path": tuple(_PATHS), "ukernels": _UKERNELS}


@dataclass(frozen=True, slots=True)
class DataTiling(Tuning):
    """`path`: where in the compiler the packing begins; `global_opt` packs and unpacks in dispatches of their own.
    `ukernels`: whether the product of tiles is a call of a microkernel: those that the compiler prefers, none, all."""

    path: str = "dispatch_creation"
    ukernels: str = "default"

    family: ClassVar[str] = "data_tiling"
    form: ClassVar[str] = "data_tiling, _global_opt behind it or not, then _ukernels_none, _ukernels_all or neither"
    keeps_dispatches: ClassVar[bool] = False

    @classmethod
    def expand(cls, parameters: Mapping[str, Any]) -> tuple[Tuning, ...]:
        for name, value in parameters.items():
            if value not in _VALUES.get(name, ()):
                allowed = "; ".join(f"{word} = {', '.join(values)}" for word, values in _VALUES.items())
                raise ValueError(f"{name} = {value!r}; allowed are {allowed}")
        return (cls(**parameters),)

    @classmethod
    def parse(cls, word: str) -> Tuning | None:
        return next(
            (tuning for tuning in (cls(*values) for values in product(*_VALUES.values())) if tuning.name == word), None
        )

    @property
    def name(self) -> str:
        path = "" if self.path == "dispatch_creation" else f"_{self.path}"
        return f"{self.family}{path}" + ("" if self.ukernels == "default" else f"_ukernels_{self.ukernels}")

    @property
    def flags(self) -> tuple[str, ...]:
        ukernels = () if self.ukernels == "default" else (f"--iree-llvmcpu-enable-ukernels={self.ukernels}",)
        return (_PATHS[self.path], *ukernels)

    def unknown_to(self, backend: str) -> str | None:
        if backend not in _BACKENDS:
            return f"data tiling packs nothing for {backend} (IREE 3.13), only for {', '.join(_BACKENDS)}"
        if self.ukernels != "default" and backend != "llvm-cpu":
            return f"these microkernels are of llvm-cpu, not of {backend}"
        return None

    def illegal(self, operation: Operation, backend: str) -> str | None:
        if operation.name not in _PACKED:
            return f"data tiling packs {', '.join(_PACKED)}, not {operation.name}"
        if backend == "vmvx" and ElementType.BF16 in operation.signature.operands:
            if operation.name in _PADDED:
                return f"vmvx cannot pack the bf16 of a {operation.name} (IREE 3.13: bf16 constants are refused)"
            if _pads(operation):
                return "vmvx cannot pad bf16 to tiles of 8x8x4 (IREE 3.13: bf16 constants are refused)"
        if backend == "rocm" and operation.name in _VECTORS:
            return f"rocm cannot pack a {operation.name} (IREE 3.13: 'expected collapsed rank')"
        if self.path == "dispatch_creation" and _narrows_to_one(operation):
            return "this path packs no chain of 1 row by 1 between that is narrowed (IREE 3.13: 'tiling factors')"
        if self.path == "dispatch_creation" and not operation.dynamic_dims and set(operation.sizes) == {1}:
            return "this path packs nothing where all sizes are 1 (IREE 3.13)"
        if backend == "llvm-cpu" and (whole := set(_WHOLE_ON_CPU) & set(operation.signature.operands)):
            return f"llvm-cpu packs nothing of {min(t.mlir for t in whole)} (IREE 3.13)"
        return None

    def exceeds(self, operation: Operation, target: Target) -> str | None:
        if target.backend != "rocm" or target.gpu is None:
            return None
        types = operation.signature
        if any(mma.multiplies(types) for mma in map(Mma.of, target.gpu.mma) if mma):
            return None
        return f"{target.name} packs for its matrix instructions, and has none for {types.spelling} (IREE 3.13)"

    def inexpressible(self, syntax: Syntax, target: Target) -> str | None:
        if self.path == "global_opt" and not syntax.packs_in_global_opt:
            return f"{syntax} has no {_PATHS[self.path]}"
        return None

    def requested(self, operation: Operation) -> str:
        return " ".join(self.flags)

    def ignored(self, operation: Operation, applied: Applied) -> str | None:
        # The product of tiles is the proof. An executable that is called an encoding is none: where there are no tiles
        # for a type it copies (IREE 3.13).
        if any(op in _OF_TILES for executable in applied.executables for op, _ in executable.configurations):
            return None
        return f"the compiler packed nothing: no product of tiles; applied {applied.text or 'nothing'}"


def _narrows_to_one(operation: Operation) -> bool:
    """Whether the first product of a chain is one number that is narrowed, as the first operand of n columns."""
    if operation.name != "chain" or operation.signature.accumulator is operation.signature.result:
        return False
    sizes = dict(zip(operation.dims, operation.sizes, strict=True))
    return sizes["m"] == sizes["l"] == 1 < sizes["n"]


def _pads(operation: Operation) -> bool:
    """Whether vmvx's tiles do not cut m, n and k evenly, or nobody knows: 8x8x4, one side of it 1, 2 or 4 where the
    product is that narrow (IREE 3.13, found by trying sizes)."""
    if operation.dynamic_dims:
        return True
    sizes = dict(zip(operation.dims, operation.sizes, strict=True))
    m, n, k = (sizes.get(dim, 1) for dim in "mnk")
    return bool(k % 4) or not any(a % 8 == 0 and (b % 8 == 0 or b in (1, 2, 4)) for a, b in ((m, n), (n, m)))
