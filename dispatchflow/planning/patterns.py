"""Match names with shell-style patterns, which contain `*`, `?` or `[…]`."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase


def is_pattern(word: str) -> bool:
    return any(letter in word for letter in "*?[")


def matches(name: str, word: str) -> bool:
    """Return whether `word` equals `name`, or is a pattern that matches `name`.

    Equality is checked first, because a name may contain `[`."""
    return name == word or (is_pattern(word) and fnmatchcase(name, word))


def any_match(names: Iterable[str], words: Iterable[str]) -> bool:
    """Return whether at least one of `words` matches at least one of `names`.

    A word may be a pattern: `net:*` matches `net:bert`."""
    known = tuple(names)
    return any(matches(name, word) for word in words for name in known)
