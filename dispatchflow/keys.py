"""Compute two kinds of hashes: keys and digests.

A key is a hash of everything that decides the output of a step, such as a compile. A digest is a hash of bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NewType

from xxhash import xxh3_128_hexdigest

try:
    from _blake2 import blake2b  # hashlib's own; importing hashlib loads OpenSSL first, which takes 3 ms of each start
except ImportError:
    from hashlib import blake2b

Key = NewType("Key", str)
Digest = NewType("Digest", str)

# If you change the content or the encoding of the hashed text, raise `SCHEMA` and document it in docs/caching.md.
SCHEMA = 1

Ingredient = str | int | bool | bytes | None | tuple["Ingredient", ...] | Mapping[str, "Ingredient"]


def canonical(value: Ingredient) -> bytes:
    """Encode `value` as bytes: a letter for its type, the length of its content, and the content.

    Raises:
        TypeError: `value` is or contains an object that a key cannot contain, such as a float, a set or a path."""
    match value:  # most frequent types first: a plan of thousands of cases encodes each of its words
        case str():
            content, letter = value.encode("utf-8", "surrogatepass"), b"s"
        case tuple() | list():
            content, letter = b"".join(map(canonical, value)), b"t"
        case dict() | Mapping():
            content, letter = b"".join([canonical(part) for item in sorted(value.items()) for part in item]), b"m"
        case None:
            content, letter = b"", b"n"
        case bool():
            content, letter = b"1" if value else b"0", b"b"
        case int():
            content, letter = str(value).encode(), b"i"
        case bytes():
            content, letter = value, b"y"
        case _:
            raise TypeError(f"a {type(value).__name__} cannot enter a key: {value!r}")
    return b"%b%d:%b" % (letter, len(content), content)


def key_of(kind: str, ingredients: Mapping[str, Ingredient]) -> Key:
    """Return the key of an action, which is one step of the work, such as a compile.

    `ingredients` is everything that decides the action's outputs."""
    # Not cryptographic, unlike digests: only the bytes behind a digest may come from an untrusted source.
    return Key(xxh3_128_hexdigest(canonical((SCHEMA, kind, ingredients))))


_STAND_INS = 30
"""The largest number of gaps in a template of `Form`.

`Form` computes many keys that differ only in some strings. A template is the text that is hashed, with a gap for
each string. A template is for strings of certain lengths, because this text contains the lengths. To find the gaps,
`Form` encodes the text with a different control character (1 to 30 of ASCII) in place of each string. For more than 30
strings, `Form` calls `key_of`, which is slower."""


class Form:
    """Computes keys faster than `key_of`, for many actions whose ingredients differ only in some strings.

    `ingredients` is a function that takes these strings: `form.key(x, y)` equals `key_of(kind, ingredients(x, y))`."""

    def __init__(self, kind: str, ingredients: Callable[..., Mapping[str, Ingredient]]) -> None:
        self.kind, self.ingredients = kind, ingredients
        self._spell = self._spell_all
        self._spelled: dict[tuple[int, ...], list[str]] = {}
        self._templates: dict[tuple[int, ...], str] = {}

    def key(self, *strings: str) -> Key:
        if strings and "".join(strings).isascii():
            lengths = tuple(map(len, strings))
            template = self._templates.get(lengths)
            if template is None and 0 not in lengths and len(lengths) <= _STAND_INS:
                template = self._templates[lengths] = "%s".join(
                    part.replace("%", "%%") for part in self._spell(lengths)
                )
            if template is not None:
                return Key(xxh3_128_hexdigest((template % strings).encode("utf-8", "surrogatepass")))
        return key_of(self.kind, self.ingredients(*strings))

    def around(self, first: Sequence[str], last: Sequence[str]) -> Form:
        """Return a `Form` in which the first and the last arguments of `key` are fixed.

        `form.around([x], [z]).key(y)` equals `form.key(x, y, z)`."""
        form = Form(self.kind, lambda *middle: self.ingredients(*first, *middle, *last))

        def spell(lengths: tuple[int, ...]) -> list[str]:
            begin, end = len(first), len(first) + len(lengths)
            all_lengths = (*map(len, first), *lengths, *map(len, last))
            if len(all_lengths) > _STAND_INS:
                return form._spell_all(lengths)
            if (parts := self._spelled.get(all_lengths)) is None:
                parts = self._spelled[all_lengths] = self._spell(all_lengths)
            text = [parts[0]]
            for index, (string, part) in enumerate(zip((*first, *lengths, *last), parts[1:], strict=True)):
                if begin <= index < end:
                    text.append(part)
                else:
                    text[-1] += f"{string}{part}"
            return text

        if "".join((*first, *last)).isascii() and "" not in (*first, *last):
            form._spell = spell
        return form

    def _spell_all(self, lengths: tuple[int, ...]) -> list[str]:
        stand_ins = [chr(1 + index) * length for index, length in enumerate(lengths)]
        parts, rest = [], canonical((SCHEMA, self.kind, self.ingredients(*stand_ins))).decode("utf-8", "surrogatepass")
        for length, stand_in in zip(lengths, stand_ins, strict=True):
            before, found, rest = rest.partition(f"s{length}:{stand_in}")
            assert found, "strings enter in the order of their ingredients' names, each once"
            parts.append(f"{before}s{length}:")
        return [*parts, rest]


_DIGEST_BYTES = 20
_DIGEST = re.compile(f"[0-9a-f]{{{2 * _DIGEST_BYTES}}}")


def is_digest(text: str) -> bool:
    return _DIGEST.fullmatch(text) is not None


def digest_of(content: bytes) -> Digest:
    return Digest(blake2b(content, digest_size=_DIGEST_BYTES).hexdigest())


def digest_file(path: Path) -> Digest:
    hasher = blake2b(digest_size=_DIGEST_BYTES)
    with path.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            hasher.update(chunk)
    return Digest(hasher.hexdigest())
