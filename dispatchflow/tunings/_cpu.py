"""What families that give tile sizes to llvm-cpu share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from dispatchflow.operations import Operation
from dispatchflow.syntax import Syntax
from dispatchflow.tunings import _tiles
from dispatchflow.tunings._base import Applied, Lowering

# "One or more operations with large vector sizes": the refusal begins at 512 native vectors of the unrolled
# m·n·k tile, 16384 B with AVX2 and 32768 B with AVX-512 (seen with 3.13.0). Only what no CPU takes is a skip.
_MAX_TILE_BYTES = 32768


def configuration(dims: Iterable[str], levels: Mapping[str, Mapping[str, int]]) -> str:
    """`distribution = [64, 64, 0], …` as the compiler prints it: for each level a size a dim, 0 if it says none."""
    return ", ".join(
        f"{level} = [{', '.join(str(sizes.get(dim, 0)) for dim in dims)}]" for level, sizes in sorted(levels.items())
    )


def lowering(configured: str, pipeline: str, syntax: Syntax, region: bool = False) -> Lowering:
    return _tiles.lowering(f"#iree_cpu.lowering_config<{configured}>", syntax.cpu_pipeline(pipeline), region)


def inexpressible(syntax: Syntax) -> str | None:
    return None if syntax.has_cpu_lowering_config else f"{syntax} cannot be given CPU tiles by name"


def vector_tile(operation: Operation, levels: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """Of each dim the smallest tile of all levels, cut off at a size that the compiler is told."""
    tile = {}
    for loop in operation.loops:
        sizes = [level[loop.dim] for level in levels.values() if level.get(loop.dim)]
        tile[loop.dim] = min(sizes if loop.dim in operation.dynamic_dims else [*sizes, loop.size])
    return tile


def too_large(operation: Operation, tile: Iterable[int]) -> str | None:
    """Why the compiler refuses a vector tile of these sizes, None where it may take it."""
    tile_bytes = prod(tile) * operation.signature.accumulator.bits // 8
    if tile_bytes >= _MAX_TILE_BYTES:
        return f"a vector tile of {tile_bytes} B; the compiler refuses {_MAX_TILE_BYTES} B and more"
    return None


def ignored(asked: str, pipeline: str, applied: Applied) -> str | None:
    """Why none of the executables has what was asked for under its pipeline, None when one has."""
    for executable in applied.executables:
        if any(config == asked for _, config in executable.configurations):
            wrong = executable.pipeline != pipeline
            return f"applied under pipeline {executable.pipeline}" if wrong else None
    return _tiles.not_applied(asked, applied)
