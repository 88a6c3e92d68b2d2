"""Double tiling for CPUs: tiles for workers, registers and a cache, and a step along the summed dim.

The tuning selects IREE's pipeline `DoubleTilingExpert`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from dispatchflow.tunings import _cpu_tiles, _tiles
from dispatchflow.tunings.api import Applied, Lowering, Operation, Release, Target, Tuning

_PIPELINE = "DoubleTilingExpert"
_FORMS = {"distribution": "[m, n]", "vector": "[m, n]", "reduction": "k", "cache": "[m, n] or [m, n, k]"}
_NAME = re.compile(r"double_tiling_(\d+)x(\d+)_(\d+)x(\d+)x(\d+)(?:_cache_(\d+(?:x\d+){1,2}))?")


@dataclass(frozen=True, slots=True)
class DoubleTiling(Tuning):
    """The tile sizes of a product. In a batch of products, tiles have the size 1 along the batch dim.

    A product with a vector has only one of the dims m and n. The tile sizes for the other dim are ignored."""

    distribution: tuple[int, int]
    """The tile that a worker computes at a time, [m, n]."""
    vector: tuple[int, int]
    """The tile that is kept in registers, [m, n]."""
    reduction: int
    """The step along k, the summed dim."""
    cache: tuple[int, ...] | None = None
    """The cache tile, [m, n] or [m, n, k]; None for no cache tile."""

    family: ClassVar[str] = "double_tiling"
    form: ClassVar[str] = (
        "double_tiling_MxN_MxNxK: distribution, vector, reduction; optionally _cache_MxN or _cache_MxNxK; all above 0"
    )

    @classmethod
    def expand(cls, parameters: Mapping[str, Any]) -> tuple[Tuning, ...]:
        if not parameters:
            return _SHIPPED
        _tiles.check_names(parameters, _FORMS, optional=("cache",))
        sizes = {name: _tiles.sizes(name, value, _FORMS[name]) for name, value in parameters.items()}
        (dm, dn), (vm, vn), (k,) = sizes["distribution"], sizes["vector"], sizes["reduction"]
        return (cls((dm, dn), (vm, vn), k, sizes.get("cache")),)

    @classmethod
    def parse(cls, word: str) -> Tuning | None:
        if (match := _NAME.fullmatch(word)) is None:
            return None
        dm, dn, vm, vn, k = (int(group) for group in match.groups()[:5])
        cache = tuple(map(int, match[6].split("x"))) if match[6] else None
        tuning = cls((dm, dn), (vm, vn), k, cache)
        return tuning if tuning.name == word and min(dm, dn, vm, vn, k, *(cache or ())) > 0 else None

    @property
    def name(self) -> str:
        (dm, dn), (vm, vn) = self.distribution, self.vector
        cache = "" if self.cache is None else f"_cache_{'x'.join(map(str, self.cache))}"
        return f"{self.family}_{dm}x{dn}_{vm}x{vn}x{self.reduction}{cache}"

    def lowering(self, operation: Operation, syntax: Release) -> Lowering:
        return _cpu_tiles.lowering(self.requested(operation), _PIPELINE, syntax)

    def unknown_to(self, backend: str) -> str | None:
        return None if backend == "llvm-cpu" else f"double tiling is a configuration of llvm-cpu, not of {backend}"

    def illegal(self, operation: Operation, backend: str) -> str | None:
        if (untiled := _tiles.untiled(operation)) is not None:
            return untiled
        loops = {loop.dim: loop.summed for loop in operation.loops}
        if (
            not loops.get("k")
            or any(summed != (dim == "k") for dim, summed in loops.items())
            or not set(loops) <= _DIMS
        ):
            return f"double tiling needs a sum over k whose other dims are b, m or n; {operation.name} is not one"
        return None

    def inexpressible(self, syntax: Release, target: Target) -> str | None:
        return _cpu_tiles.inexpressible(syntax)

    @property
    def _levels(self) -> dict[str, dict[str, int]]:
        levels = {
            "distribution": {"b": 1, **_named(self.distribution)},
            "vector_common_parallel": {"b": 1, **_named(self.vector)},
            "vector_reduction": {"k": self.reduction},
        }
        if self.cache is not None:
            levels["cache_parallel"] = {"b": 1, **_named(self.cache[:2])}
            levels |= {"cache_reduction": {"k": self.cache[2]}} if len(self.cache) > 2 else {}
        return levels

    def requested(self, operation: Operation) -> str:
        return _configuration(self, tuple([loop.dim for loop in operation.loops]))

    def ignored(self, operation: Operation, applied: Applied) -> str | None:
        return _cpu_tiles.ignored(self.requested(operation), _PIPELINE, applied)


@lru_cache  # many cases have the same configuration
def _configuration(tuning: DoubleTiling, dims: tuple[str, ...]) -> str:
    return _cpu_tiles.configuration(dims, tuning._levels)


_DIMS = {"b", "m", "n", "k"}


def _named(sizes: tuple[int, ...]) -> dict[str, int]:
    return dict(zip(("m", "n"), sizes, strict=True))


# Each tiling was the fastest with its vector shape on a CPU with AVX2 (Zen 3) or AVX-512, among similar tilings in the
# same rounds of measurement (512x512x512 f32, one thread). A register tile of 4x16 suits the 16 registers of 32 B of
# AVX2; one of 8x32 suits the registers of 64 B of AVX-512.
_SHIPPED: tuple[Tuning, ...] = (
    DoubleTiling((64, 64), (4, 16), 4),
    DoubleTiling((64, 64), (4, 16), 1),
    DoubleTiling((128, 128), (4, 16), 1),
    DoubleTiling((64, 64), (8, 8), 1),
    DoubleTiling((64, 64), (8, 16), 8),
    DoubleTiling((64, 64), (8, 32), 1),
    DoubleTiling((128, 128), (4, 16), 4, cache=(64, 64)),
)
