"""CPU double tiling: distribution tiles over workers, vector tiles over registers, a reduction step.

Written as an op-level `compilation_info` for pipeline `DoubleTilingExpert`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from dispatchflow.operations import Operation
from dispatchflow.syntax import Syntax
from dispatchflow.tunings._base import Applied, Lowering, Tuning

_PIPELINE = "DoubleTilingExpert"
_PARAMETERS = {"distribution": 2, "vector": 2, "reduction": 1, "cache": 2}
_NAME = re.compile(r"double_tiling_(\d+)x(\d+)_(\d+)x(\d+)x(\d+)(?:_cache_(\d+)x(\d+))?")

# "One or more operations with large vector sizes": the refusal begins at 512 native vectors of the unrolled
# m·n·k tile, 16384 B with AVX2 and 32768 B with AVX-512 (seen with 3.13.0). Only what no CPU takes is a skip.
_MAX_TILE_BYTES = 32768


@dataclass(frozen=True, slots=True)
class DoubleTiling(Tuning):
    """`distribution` and `cache` are [m, n], `vector` is [m, n], `reduction` is [k]."""

    distribution: tuple[int, int]
    vector: tuple[int, int]
    reduction: int
    cache: tuple[int, int] | None = None

    family: ClassVar[str] = "double_tiling"

    @classmethod
    def expand(cls, parameters: Mapping[str, Any]) -> tuple[Tuning, ...]:
        if not parameters:
            return _SHIPPED
        unknown = sorted(set(parameters) - set(_PARAMETERS))
        missing = sorted({"distribution", "vector", "reduction"} - set(parameters))
        if unknown or missing:
            wrong = f"unknown parameter '{unknown[0]}'" if unknown else f"parameter '{missing[0]}' is missing"
            raise ValueError(
                f"{wrong}; allowed are distribution = [m, n], vector = [m, n], reduction = k, cache = [m, n]"
            )
        sizes = {name: _sizes(name, value) for name, value in parameters.items()}
        cache = sizes.get("cache")
        return (
            cls(
                distribution=(sizes["distribution"][0], sizes["distribution"][1]),
                vector=(sizes["vector"][0], sizes["vector"][1]),
                reduction=sizes["reduction"][0],
                cache=(cache[0], cache[1]) if cache else None,
            ),
        )

    @classmethod
    def parse(cls, word: str) -> Tuning | None:
        if (match := _NAME.fullmatch(word)) is None:
            return None
        dm, dn, vm, vn, k, *cache = (int(group) for group in match.groups() if group is not None)
        tuning = cls((dm, dn), (vm, vn), k, (cache[0], cache[1]) if cache else None)
        return tuning if tuning.name == word and min(dm, dn, vm, vn, k, *cache) > 0 else None

    @property
    def name(self) -> str:
        (dm, dn), (vm, vn) = self.distribution, self.vector
        cache = "" if self.cache is None else f"_cache_{self.cache[0]}x{self.cache[1]}"
        return f"{self.family}_{dm}x{dn}_{vm}x{vn}x{self.reduction}{cache}"

    def lowering(self, operation: Operation, syntax: Syntax) -> Lowering:
        return Lowering(
            prelude=f"""\
#config = #iree_cpu.lowering_config<{self.requested(operation)}>
#translation = #iree_codegen.translation_info<pipeline = {syntax.cpu_pipeline(_PIPELINE)}>
#compilation = #iree_codegen.compilation_info<lowering_config = #config, translation_info = #translation>
""",
            attribute="{compilation_info = #compilation} ",
        )

    def illegal(self, operation: Operation, backend: str) -> str | None:
        if backend != "llvm-cpu":
            return f"double tiling is a configuration of llvm-cpu, not of {backend}"
        if operation.name != "matmul":
            return f"double tiling of {operation.name} is not described here"
        if any(d % v for d, v in zip(self.distribution, self.vector, strict=True)):
            return f"distribution {self.distribution} is not a multiple of vector {self.vector}"
        tile_bytes = self.vector[0] * self.vector[1] * self.reduction * operation.signature.accumulator.bits // 8
        if tile_bytes >= _MAX_TILE_BYTES:
            return f"a vector tile of {tile_bytes} B; the compiler refuses {_MAX_TILE_BYTES} B and more"
        return None

    def inexpressible(self, syntax: Syntax) -> str | None:
        return None if syntax.has_cpu_lowering_config else f"{syntax} cannot be given CPU tiles by name"

    def requested(self, operation: Operation) -> str:
        (dm, dn), (vm, vn) = self.distribution, self.vector
        cache = "" if self.cache is None else f"cache_parallel = [{self.cache[0]}, {self.cache[1]}, 0], "
        return (
            f"{cache}distribution = [{dm}, {dn}, 0], vector_common_parallel = [{vm}, {vn}, 0], "
            f"vector_reduction = [0, 0, {self.reduction}]"
        )

    def ignored(self, operation: Operation, applied: Applied) -> str | None:
        asked = self.requested(operation)
        for executable in applied.executables:
            if any(config == asked for _, config in executable.configurations):
                wrong = executable.pipeline != _PIPELINE
                return f"applied under pipeline {executable.pipeline}" if wrong else None
        return f"asked for {asked}; applied {applied.text or 'nothing'}"


def _sizes(name: str, value: Any) -> tuple[int, ...]:
    sizes = tuple(value) if isinstance(value, list | tuple) else (value,)
    count = _PARAMETERS[name]
    if len(sizes) != count or not all(type(size) is int and size > 0 for size in sizes):
        form = "[m, n]" if count == 2 else "k"
        raise ValueError(f"{name} = {value!r}; expected {form}, positive integers")
    return sizes


# Each is the fastest of its vector shape on some CPU: 512x512x512 f32, AVX2 (Zen 3) and AVX-512, one thread,
# interleaved with its neighbours. Register tiles of 4x16 suit 16 registers of 32 B, 8x32 those of 64 B.
_SHIPPED: tuple[Tuning, ...] = (
    DoubleTiling((64, 64), (4, 16), 4),
    DoubleTiling((64, 64), (4, 16), 1),
    DoubleTiling((128, 128), (4, 16), 1),
    DoubleTiling((64, 64), (8, 8), 1),
    DoubleTiling((64, 64), (8, 16), 8),
    DoubleTiling((64, 64), (8, 32), 1),
    DoubleTiling((128, 128), (4, 16), 4, cache=(64, 64)),
)
