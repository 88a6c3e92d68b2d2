"""The stages, and the command-line words that name them."""

from __future__ import annotations

STAGES = ("emit", "compile", "verify", "profile")
"""The stages of a case, in order. A row of results reports these stages."""
SITES = "sites"
"""The stage after `profile`, which finds and measures a case's sites. It runs only if it is named."""
NAMED = (*STAGES, SITES)
"""All stages that a command line can name."""
MEASURED = ("profile", SITES)
"""The stages that measure cases. While such a stage runs, no other stage runs."""


def cases_named(word: str) -> tuple[str, str] | None:
    """Split `profile:matmul_*` into the stage `profile` and the pattern `matmul_*`.

    If `word` is only the name of a stage, the pattern is `*`. If `word` names no stage, the result is None."""
    stage, colon, pattern = word.partition(":")
    return (stage, pattern or "*") if stage in NAMED and (pattern or not colon) else None


def up_to(stage: str) -> tuple[str, ...]:
    """Return the stages in `STAGES` from `emit` to `stage`.

    If `stage` is `sites`, which comes after the stages in `STAGES`, return all of `STAGES`."""
    return STAGES if stage == SITES else STAGES[: STAGES.index(stage) + 1]
