"""Value → Key, bytes → Digest: xxh3-128 over canonical, length-prefixed data.

If you change what enters a key or how, raise `SCHEMA` and say so in docs/caching.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NewType

from xxhash import xxh3_128, xxh3_128_hexdigest

Key = NewType("Key", str)
Digest = NewType("Digest", str)

SCHEMA = 1

Ingredient = str | int | bool | bytes | None | tuple["Ingredient", ...] | Mapping[str, "Ingredient"]


def canonical(value: Ingredient) -> bytes:
    """The value's bytes: a type letter, a length, the content; mappings sorted by name.

    Raises:
        TypeError: floats (not one spelling), sets (no order), paths (machine-dependent) and all else.
    """
    match value:
        case None:
            return b"n0:"
        case bool():
            return b"b1:1" if value else b"b1:0"
        case int():
            content, letter = str(value).encode(), "i"
        case str():
            content, letter = value.encode("utf-8", "surrogatepass"), "s"
        case bytes():
            content, letter = value, "y"
        case tuple() | list():
            content, letter = b"".join(map(canonical, value)), "t"
        case Mapping():
            names = sorted(value)
            content, letter = b"".join(canonical(n) + canonical(value[n]) for n in names), "m"
        case _:
            raise TypeError(f"a {type(value).__name__} cannot enter a key: {value!r}")
    return f"{letter}{len(content)}:".encode() + content


def key_of(kind: str, ingredients: Mapping[str, Ingredient]) -> Key:
    """The key of one action: its kind, the schema number and everything that decides its outputs."""
    return Key(xxh3_128_hexdigest(canonical((SCHEMA, kind, ingredients))))


def digest_of(content: bytes) -> Digest:
    return Digest(xxh3_128_hexdigest(content))


def digest_file(path: Path) -> Digest:
    """The digest of a file's bytes.

    Raises:
        OSError: it cannot be read.
    """
    hasher = xxh3_128()
    with path.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            hasher.update(chunk)
    return Digest(hasher.hexdigest())
