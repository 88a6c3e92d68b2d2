"""The stages, and the command-line words that name them."""

from __future__ import annotations

STAGES = ("emit", "compile", "verify", "profile")
"""The stages of a case, in order; its row is about these."""
SITES = "sites"
"""The stage after `profile`, which shows what each dispatch computes. It runs only if named."""
NAMED = (*STAGES, SITES)
"""All stages that a command line can name."""
MEASURED = ("profile", SITES)
"""The stages that run alone on the machine. A case that is selected for one of them is measured."""


def cases_named(word: str) -> tuple[str, str] | None:
    """Return (stage, pattern of cases) of a word; None if it may mean something else.

    `profile:matmul_*` is (`profile`, `matmul_*`), `profile` is (`profile`, `*`): cases up to one stage."""
    stage, colon, pattern = word.partition(":")
    return (stage, pattern or "*") if stage in NAMED and (pattern or not colon) else None


def up_to(stage: str) -> tuple[str, ...]:
    """Return the stages of a case up to this one; `sites` is not one of them."""
    return STAGES if stage == SITES else STAGES[: STAGES.index(stage) + 1]
