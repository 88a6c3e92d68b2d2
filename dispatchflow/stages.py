"""The stages, and the command-line words that name them."""

from __future__ import annotations

STAGES = ("emit", "compile", "verify", "profile")


def cases_named(word: str) -> tuple[str, str] | None:
    """Return (stage, pattern of cases) of a word; None if it may mean something else.

    `profile:matmul_*` is (`profile`, `matmul_*`), `profile` is (`profile`, `*`): cases up to one stage."""
    stage, colon, pattern = word.partition(":")
    return (stage, pattern or "*") if stage in STAGES and (pattern or not colon) else None
