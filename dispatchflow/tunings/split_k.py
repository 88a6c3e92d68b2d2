"""Split-k: compute slices of the sum over k separately, and add them in a second dispatch.

The tuning sets the compiler flag `--iree-dispatch-creation-split-matmul-reduction`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from dispatchflow.tunings.api import PRODUCTS, Applied, Operation, Tuning

_FLAG = "--iree-dispatch-creation-split-matmul-reduction"


@dataclass(frozen=True, slots=True)
class SplitK(Tuning):
    slices: int

    family: ClassVar[str] = "split_k"
    form: ClassVar[str] = "split_k_SLICES: 2 or more"
    keeps_dispatches: ClassVar[bool] = False

    @classmethod
    def expand(cls, parameters: Mapping[str, Any]) -> tuple[Tuning, ...]:
        if not parameters:
            return _SHIPPED
        given = parameters.get("slices")
        several = given if isinstance(given, list) else [given]
        if set(parameters) != {"slices"} or not several or not all(type(s) is int and s > 1 for s in several):
            raise ValueError("takes slices = 4, or a list; integers above 1")
        return tuple(cls(slices) for slices in dict.fromkeys(several))

    @classmethod
    def parse(cls, word: str) -> Tuning | None:
        match = re.fullmatch(r"split_k_([1-9]\d*)", word)
        return cls(int(match[1])) if match and int(match[1]) > 1 else None

    @property
    def name(self) -> str:
        return f"{self.family}_{self.slices}"

    @property
    def flags(self) -> tuple[str, ...]:
        return (f"{_FLAG}={self.slices}",)

    def illegal(self, operation: Operation, backend: str) -> str | None:
        if operation.name not in PRODUCTS:
            return f"IREE splits no sums of {operation.name}"
        return None

    def requested(self, operation: Operation) -> str:
        return f"{_FLAG}={self.slices}"

    def ignored(self, operation: Operation, applied: Applied) -> str | None:
        # The name of the product's executable has a new outermost dim, `…_matmul_like_4x64x64x2048_f32`; the next
        # executable adds the slices.
        names = [executable.name for executable in applied.executables]
        if len(names) > 1 and any(re.search(rf"_like_{self.slices}x", name) for name in names):
            return None
        return f"asked for {self.slices} slices of k; the compiler made {', '.join(names) or 'nothing'}"


_SHIPPED: tuple[Tuning, ...] = tuple(SplitK(slices) for slices in (2, 4, 8))
