"""The stages, and the command-line words that name them."""

from __future__ import annotations

STAGES = ("emit", "compile", "verify", "profile")
"""The stages of a case, in order. A row of results reports these stages."""
SITES = "sites"
"""The stage after `profile`, which shows what each dispatch computes. It runs only if it is named."""
NAMED = (*STAGES, SITES)
"""All stages that a command line can name."""
MEASURED = ("profile", SITES)
"""The stages that run alone on the machine. A case that is selected for such a stage is measured."""


def cases_named(word: str) -> tuple[str, str] | None:
    """Split `profile:matmul_*` into the stage `profile` and the pattern `matmul_*`.

    For a stage alone, the pattern is `*`. The result is None if `word` names no stage."""
    stage, colon, pattern = word.partition(":")
    return (stage, pattern or "*") if stage in NAMED and (pattern or not colon) else None


def up_to(stage: str) -> tuple[str, ...]:
    """Return the stages from `emit` to `stage`. For `sites`, return those from `emit` to `profile`."""
    return STAGES if stage == SITES else STAGES[: STAGES.index(stage) + 1]
