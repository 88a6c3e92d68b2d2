"""The stages, and the words of a command line that name them."""

from __future__ import annotations

STAGES = ("emit", "compile", "verify", "profile")


def cases_named(word: str) -> tuple[str, str] | None:
    """`profile:matmul_*` → (`profile`, `matmul_*`), `profile` → (`profile`, `*`); None for a word that may mean
    something else than cases up to one stage."""
    stage, colon, pattern = word.partition(":")
    return (stage, pattern or "*") if stage in STAGES and (pattern or not colon) else None
