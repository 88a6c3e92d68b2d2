"""The stages, and the command-line words that name them."""

from __future__ import annotations

STAGES = ("emit", "compile", "verify", "profile")
"""The stages of a case, in order; a row reports these."""
SITES = "sites"
"""The stage after `profile`; it shows what each dispatch computes. It runs only if it is named."""
NAMED = (*STAGES, SITES)
"""All stages that a command line can name."""
MEASURED = ("profile", SITES)
"""The stages that run alone on the machine. A case that is selected for one of them is measured."""


def cases_named(word: str) -> tuple[str, str] | None:
    """Split a command-line word into (stage, pattern of cases): (`profile`, `matmul_*`).

    A stage alone is (`profile`, `*`). The result is None if the word names no stage."""
    stage, colon, pattern = word.partition(":")
    return (stage, pattern or "*") if stage in NAMED and (pattern or not colon) else None


def up_to(stage: str) -> tuple[str, ...]:
    """Return the stages from `emit` to `stage`; for `sites`, those from `emit` to `profile`."""
    return STAGES if stage == SITES else STAGES[: STAGES.index(stage) + 1]
