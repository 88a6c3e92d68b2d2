"""The tuning family `data_tiling`: pack the operands of a product into tiles, and unpack the result.

The default tuning of the family sets IREE's flag `--iree-opt-data-tiling`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

from dispatchflow.tunings.api import PRODUCTS, Applied, Operation, Release, Target, Tuning

# The ops of packed operands' products: mmt4d (batch_mmt4d with a batch) on llvm-cpu and vmvx, inner_tiled on rocm.
_OF_TILES = {"mmt4d", "batch_mmt4d", "inner_tiled"}

# Path → flag. --iree-opt-data-tiling packs when dispatches are formed: its vmfbs are equal to those with the specific
# flag for that phase (IREE 3.13).
_PATHS = {"dispatch_creation": "--iree-opt-data-tiling", "global_opt": "--iree-global-opt-data-tiling"}
_UKERNELS = ("default", "none", "all")
_VALUES = {"path": tuple(_PATHS), "ukernels": _UKERNELS}


@dataclass(frozen=True, slots=True)
class DataTiling(Tuning):
    path: str = "dispatch_creation"
    """The compiler phase in which operands are packed: `dispatch_creation` or `global_opt`.

    With `global_opt`, operands are packed and results are unpacked in dispatches of their own."""
    ukernels: str = "default"
    """Which products of tiles are computed by a microkernel: `none`, `all`, or `default`.

    `default` means that the compiler chooses."""

    family: ClassVar[str] = "data_tiling"
    form: ClassVar[str] = "data_tiling, then optionally _global_opt, then optionally _ukernels_none or _ukernels_all"
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
            return f"only llvm-cpu has these microkernels, not {backend}"
        return None

    def illegal(self, operation: Operation, backend: str) -> str | None:
        if operation.name not in PRODUCTS:
            return f"IREE packs no operands of {operation.name}"
        return None

    def inexpressible(self, syntax: Release, target: Target) -> str | None:
        if self.path == "global_opt" and not syntax.packs_in_global_opt:
            return f"{syntax} has no {_PATHS[self.path]}"
        return None

    def requested(self, operation: Operation) -> str:
        return " ".join(self.flags)

    def ignored(self, operation: Operation, applied: Applied) -> str | None:
        # Only an op in `_OF_TILES` proves data tiling. An executable with `encoding` in its name does not: for an
        # element type that is not packed, it only copies (IREE 3.13).
        if any(op in _OF_TILES for executable in applied.executables for op, _ in executable.configurations):
            return None
        return f"the compiler packed nothing: no product of tiles; applied {applied.text or 'nothing'}"
