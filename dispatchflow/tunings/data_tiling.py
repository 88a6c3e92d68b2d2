"""Operands packed into tiles before the product, results unpacked after it: `--iree-opt-data-tiling`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

from dispatchflow.tunings.api import PRODUCTS, Applied, Operation, Release, Target, Tuning

# What a product becomes once its operands are tiles: on llvm-cpu and vmvx, the same of a batch, on rocm.
_OF_TILES = {"mmt4d", "batch_mmt4d", "inner_tiled"}

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
        if self.ukernels != "default" and backend != "llvm-cpu":
            return f"these microkernels are of llvm-cpu, not of {backend}"
        return None

    def illegal(self, operation: Operation, backend: str) -> str | None:
        if operation.name not in PRODUCTS:
            return f"{operation.name} multiplies no matrices: it has no operands to pack"
        return None

    def inexpressible(self, syntax: Release, target: Target) -> str | None:
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
