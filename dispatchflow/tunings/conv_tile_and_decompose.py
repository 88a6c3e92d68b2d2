"""The tuning family `conv_tile_and_decompose`: tile sizes for convolutions and pooling on CPUs.

The pipeline is `ConvTileAndDecomposeExpert`. If the tiles have one row, this pipeline replaces the 2-D operation by 1-D
operations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from dispatchflow.tunings import _cpu_tiles, _tiles
from dispatchflow.tunings.api import Applied, Lowering, Operation, Release, Target, Tuning

_PIPELINE = "ConvTileAndDecomposeExpert"
_FORMS = {"distribution": "[n, oh, ow, f]", "vector": "[n, oh, ow, f]", "reduction": "[kh, kw, c]"}
_NAME = re.compile(r"conv_tile_and_decompose_(\d+(?:x\d+){3})_(\d+(?:x\d+){3})_(\d+(?:x\d+){2})")


@dataclass(frozen=True, slots=True)
class ConvTileAndDecompose(Tuning):
    """The tile sizes for a convolution or pooling (docs/tunings.md).

    The dimensions of the result are n (image), oh (row), ow (column) and f (channel). The summed dimensions are kh
    and kw (the window's row and column) and c (input channel). In a depthwise convolution or a pooling, c is not
    used."""

    distribution: tuple[int, ...]
    """The tile that a worker computes at a time, in the order [n, oh, ow, f] for every layout.

    A dimension with size 0 is not tiled."""
    vector: tuple[int, ...]
    """The tile that is kept in registers, in the order [n, oh, ow, f] for every layout."""
    reduction: tuple[int, ...]
    """The steps along the summed dimensions, [kh, kw, c]."""

    family: ClassVar[str] = "conv_tile_and_decompose"
    form: ClassVar[str] = (
        "conv_tile_and_decompose_NxOHxOWxF_NxOHxOWxF_KHxKWxC: distribution, vector, reduction; the last two above 0"
    )

    @classmethod
    def expand(cls, parameters: Mapping[str, Any]) -> tuple[Tuning, ...]:
        if not parameters:
            return _SHIPPED
        _tiles.check_names(parameters, _FORMS)
        return (
            cls(
                **{
                    name: _tiles.sizes(name, value, _FORMS[name], least=int(name != "distribution"))
                    for name, value in parameters.items()
                }
            ),
        )

    @classmethod
    def parse(cls, word: str) -> Tuning | None:
        if (match := _NAME.fullmatch(word)) is None:
            return None
        tuning = cls(*(tuple(map(int, group.split("x"))) for group in match.groups()))
        return tuning if tuning.name == word and min(*tuning.vector, *tuning.reduction) > 0 else None

    @property
    def name(self) -> str:
        return "_".join(
            [self.family, *("x".join(map(str, s)) for s in (self.distribution, self.vector, self.reduction))]
        )

    def lowering(self, operation: Operation, syntax: Release) -> Lowering:
        # If a dim has size 1, the compiler replaces the convolution by one without the dim and without this attribute.
        # It does not do so inside a dispatch region.
        alone = syntax.generalizes_convolutions or _has_unit(operation)
        return _cpu_tiles.lowering(self.requested(operation), _PIPELINE, syntax, region=alone)

    def unknown_to(self, backend: str) -> str | None:
        if backend != "llvm-cpu":
            return f"tile-and-decompose is a configuration of llvm-cpu, not of {backend}"
        return None

    def illegal(self, operation: Operation, backend: str) -> str | None:
        if (untiled := _tiles.untiled(operation)) is not None:
            return untiled
        if _channels(operation) is None:
            return (
                f"tile-and-decompose needs a convolution with one group or a pooling; this {operation.name} is neither"
            )
        return None

    def inexpressible(self, syntax: Release, target: Target) -> str | None:
        return _cpu_tiles.inexpressible(syntax)

    def _levels(self, channels: str) -> dict[str, dict[str, int]]:
        parallel, summed = ("n", "oh", "ow", channels), ("kh", "kw", "c")
        return {
            "distribution": dict(zip(parallel, self.distribution, strict=True)),
            "vector_common_parallel": dict(zip(parallel, self.vector, strict=True)),
            "vector_reduction": {
                dim: size for dim, size in zip(summed, self.reduction, strict=True) if dim not in parallel
            },
        }

    def requested(self, operation: Operation) -> str:
        dims = [loop.dim for loop in operation.loops]
        return _cpu_tiles.configuration(dims, self._levels(_channels(operation) or ""))

    def ignored(self, operation: Operation, applied: Applied) -> str | None:
        return _cpu_tiles.ignored(self.requested(operation), _PIPELINE, applied)


def _has_unit(operation: Operation) -> bool:
    return any(loop.size == 1 for loop in operation.loops)


def _channels(operation: Operation) -> str | None:
    """Return the name of the loop dimension for the result's channels.

    Returns None unless the operation is a convolution with one group, a depthwise convolution or a pooling."""
    parallel = {loop.dim for loop in operation.loops if not loop.summed}
    summed = {loop.dim for loop in operation.loops if loop.summed}
    left = parallel - {"n", "oh", "ow"}
    fits = len(parallel) == 4 and len(left) == 1 and {"kh", "kw"} <= summed <= {"kh", "kw", "c"}
    return next(iter(left)) if fits else None


# A row of the image is a product with m = ow, n = f and k = c, so the register tiles are those of double tiling. The
# reduction of the last tiling covers a window of 3 columns, for depthwise convolutions.
_SHIPPED: tuple[Tuning, ...] = (
    ConvTileAndDecompose((0, 8, 32, 32), (1, 1, 8, 32), (1, 1, 8)),
    ConvTileAndDecompose((0, 8, 32, 64), (1, 1, 8, 16), (1, 1, 8)),
    ConvTileAndDecompose((1, 4, 32, 32), (1, 1, 4, 16), (1, 3, 4)),
)
