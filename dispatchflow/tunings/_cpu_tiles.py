"""Shared code of the tuning families that give tile sizes to llvm-cpu."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dispatchflow.tunings import _tiles
from dispatchflow.tunings.api import Applied, Lowering, Release


def configuration(dims: Iterable[str], levels: Mapping[str, Mapping[str, int]]) -> str:
    """Return tile sizes as the compiler prints them: `distribution = [64, 64, 0], …`.

    `dims` are the names of the op's loop dimensions, in order. `levels` maps each tiling level, such as
    `distribution`, to a dict from dimension to tile size. Dimensions that are not in this dict get 0."""
    return ", ".join(
        f"{level} = [{', '.join(str(sizes.get(dim, 0)) for dim in dims)}]" for level, sizes in sorted(levels.items())
    )


def lowering(configured: str, pipeline: str, syntax: Release, region: bool = False) -> Lowering:
    return _tiles.lowering(f"#iree_cpu.lowering_config<{configured}>", syntax.cpu_pipeline(pipeline), region)


def inexpressible(syntax: Release) -> str | None:
    return None if syntax.has_cpu_lowering_config else f"{syntax} cannot be given CPU tiles by name"


def ignored(asked: str, pipeline: str, applied: Applied) -> str | None:
    """Return why the compiler did not apply the tile sizes `asked` with the pipeline `pipeline`.

    Returns None if it applied these tile sizes with this pipeline."""
    for executable in applied.executables:
        if any(config == asked for _, config in executable.configurations):
            wrong = executable.pipeline != pipeline
            return f"applied under pipeline {executable.pipeline}" if wrong else None
    return _tiles.not_applied(asked, applied)
