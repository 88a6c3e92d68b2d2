"""Patterns of names, as a shell has them: `*`, `?`, `[…]`."""

from __future__ import annotations

from fnmatch import fnmatchcase


def is_pattern(word: str) -> bool:
    """Whether a word may match more names than the one that it spells."""
    return any(letter in word for letter in "*?[")


def matches(name: str, word: str) -> bool:
    """Whether a word is this name, or a pattern that matches it. A name with a `[` of its own spells itself."""
    return name == word or (is_pattern(word) and fnmatchcase(name, word))
