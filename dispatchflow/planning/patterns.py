"""Shell-style patterns of names: `*`, `?`, `[…]`."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase


def is_pattern(word: str) -> bool:
    """Return whether a word may match names other than itself."""
    return any(letter in word for letter in "*?[")


def matches(name: str, word: str) -> bool:
    """Return whether a word is this name or a pattern that matches it; a name may itself contain `[`."""
    return name == word or (is_pattern(word) and fnmatchcase(name, word))


def any_match(names: Iterable[str], words: Iterable[str]) -> bool:
    """Return whether one of the names matches one of the words; the tag `net:bert` matches `net:*`."""
    known = tuple(names)
    return any(matches(name, word) for word in words for name in known)
