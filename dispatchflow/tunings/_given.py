"""What tunings from outside share: a file in the transform dialect that gives ops their lowering configuration."""

from __future__ import annotations

from functools import lru_cache

from dispatchflow.attributes import configurations
from dispatchflow.tunings._base import Applied, GivenFile

_SHOWN = 3


def check(file: GivenFile) -> None:
    """Raises:
    ValueError: it names no configuration, so that nothing could tell whether it was applied.
    """
    if not _configurations(file.text):
        raise ValueError(f"{file.path} names no lowering_config, so that nothing tells whether it was applied")


def named(file: GivenFile) -> str:
    return f"{file.title}_{file.digest[:8]}"


def requested(file: GivenFile) -> str:
    """The configurations that it has to give; of many the first."""
    found = _configurations(file.text)
    more = f" or {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return f"of {named(file)}: {' or '.join(found[:_SHOWN])}{more}"


def ignored(file: GivenFile, applied: Applied) -> str | None:
    """Why none of its configurations is among those that were applied, None when one is."""
    found = _configurations(file.text)
    if any(config in found for executable in applied.executables for _, config in executable.configurations):
        return None
    return f"{named(file)} matched nothing: it has {len(found)} to give; applied {applied.text or 'nothing'}"


@lru_cache(maxsize=64)
def _configurations(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(configurations(text)))
