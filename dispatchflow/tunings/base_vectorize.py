"""The tuning family `base_vectorize`: tile sizes of workgroups and invocations, for Vulkan and Metal.

Its pipeline is `BaseVectorize`, the compiler's default for SPIR-V."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from dispatchflow.tunings import _tiles
from dispatchflow.tunings.api import Applied, Lowering, Operation, Release, Target, Tuning, canonical

_PIPELINE = "BaseVectorize"
_FORMS = {"workgroup": "[m, n]", "thread": "[m, n]", "reduction": "k"}
_NAME = re.compile(r"base_vectorize_(\d+)x(\d+)_(\d+)x(\d+)x(\d+)")
# The largest number of invocations in a workgroup that every device supports. For Vulkan, this is the minimum of
# maxComputeWorkGroupInvocations that the specification requires; for Metal, the limit of Macs (Metal Feature Set
# Tables).
_MAX_THREADS = {"vulkan-spirv": (128, "Vulkan promises"), "metal-spirv": (1024, "Metal has")}


@dataclass(frozen=True, slots=True)
class BaseVectorize(Tuning):
    """The tile sizes for a product of matrices on a SPIR-V target."""

    workgroup: tuple[int, int]
    """The tile of a workgroup, [m, n]."""
    thread: tuple[int, int]
    """The tile of an invocation, [m, n]."""
    reduction: int
    """The tile of an invocation (one GPU thread) along k: the number of elements that it adds per step."""

    family: ClassVar[str] = "base_vectorize"
    form: ClassVar[str] = "base_vectorize_MxN_MxNxK: workgroup, then thread and reduction; all above 0"

    @classmethod
    def expand(cls, parameters: Mapping[str, Any]) -> tuple[Tuning, ...]:
        if not parameters:
            return _SHIPPED
        _tiles.check_names(parameters, _FORMS)
        sizes = {name: _tiles.sizes(name, value, _FORMS[name]) for name, value in parameters.items()}
        (wm, wn), (tm, tn), (k,) = sizes["workgroup"], sizes["thread"], sizes["reduction"]
        return (cls((wm, wn), (tm, tn), k),)

    @classmethod
    def parse(cls, word: str) -> Tuning | None:
        if (match := _NAME.fullmatch(word)) is None:
            return None
        wm, wn, tm, tn, k = map(int, match.groups())
        tuning = cls((wm, wn), (tm, tn), k)
        return tuning if tuning.name == word and min(wm, wn, tm, tn, k) > 0 else None

    @property
    def name(self) -> str:
        (wm, wn), (tm, tn) = self.workgroup, self.thread
        return f"{self.family}_{wm}x{wn}_{tm}x{tn}x{self.reduction}"

    def _configuration(self, operation: Operation) -> str:
        (wm, wn), (tm, tn) = self.workgroup, self.thread
        return canonical(f"tile_sizes = [[{wm}, {wn}], [{tm}, {tn}], [0, 0, {self.reduction}]]")

    @property
    def _threads(self) -> tuple[int, int]:
        """The numbers of invocations in a workgroup: (along n, along m).

        In `workgroup_size`, n comes first, because the elements along n are contiguous in memory."""
        return self.workgroup[1] // self.thread[1], self.workgroup[0] // self.thread[0]

    @property
    def _translation(self) -> str:
        return f"workgroup_size = [{self._threads[0]}, {self._threads[1]}, 1]"

    def lowering(self, operation: Operation, syntax: Release) -> Lowering:
        return _tiles.lowering(
            f"#iree_codegen.lowering_config<{self._configuration(operation)}>",
            f"#iree_gpu.spirv_pipeline<{_PIPELINE}> {self._translation}",
        )

    def unknown_to(self, backend: str) -> str | None:
        return None if backend in _MAX_THREADS else f"base_vectorize is a configuration of SPIR-V, not of {backend}"

    def illegal(self, operation: Operation, backend: str) -> str | None:
        if (untiled := _tiles.untiled(operation)) is not None:
            return untiled
        if [loop.dim for loop in operation.loops] != ["m", "n", "k"]:
            return f"base_vectorize needs a product over m, n and k; {operation.name} is not one"
        if any(w % t for w, t in zip(self.workgroup, self.thread, strict=True)):
            return f"workgroup {self.workgroup} is not a multiple of thread {self.thread}"
        limit, whose = _MAX_THREADS[backend]
        if (threads := self._threads[0] * self._threads[1]) > limit:
            return f"needs {threads} invocations in a workgroup; {whose} {limit}"
        return None

    def inexpressible(self, syntax: Release, target: Target) -> str | None:
        return None if syntax.has_gpu_pipelines else f"{syntax} has other pipelines for SPIR-V"

    def requested(self, operation: Operation) -> str:
        return f"{_PIPELINE} {self._translation} {self._configuration(operation)}"

    def ignored(self, operation: Operation, applied: Applied) -> str | None:
        return _tiles.ignored(_PIPELINE, self._translation, self._configuration(operation), applied)


# The compiler's own choice for 64x64x64, and similar tilings.
_SHIPPED: tuple[Tuning, ...] = (
    BaseVectorize((64, 64), (8, 8), 4),
    BaseVectorize((32, 64), (4, 8), 4),
    BaseVectorize((32, 32), (4, 4), 4),
)
