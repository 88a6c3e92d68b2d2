"""Parse attributes that the compiler prints: strings, dictionaries, lowering configurations."""

from __future__ import annotations

import re
from collections.abc import Iterator

_ESCAPED = re.compile(rb"\\([0-9A-Fa-f]{2}|.)")
_CONFIGURATION = re.compile(r"#[\w.]*lowering_config<")


def unescaped(written: str) -> str:
    r"""Return the text of an MLIR string literal. `written` is the part between the quotes.

    In the literal, `\"` stands for a quote, and `\C3\A4` for two bytes in hex. The bytes are UTF-8."""

    def letter(match: re.Match[bytes]) -> bytes:
        escaped = match[1]
        return (
            bytes.fromhex(escaped.decode()) if len(escaped) == 2 else {b"n": b"\n", b"t": b"\t"}.get(escaped, escaped)
        )

    return _ESCAPED.sub(letter, written.encode(errors="surrogateescape")).decode(errors="replace")


def closing(text: str, opening: int) -> int:
    """Return the index of the bracket that closes the bracket at the index `opening`.

    Returns `len(text)` if no bracket closes it. Brackets in strings and the `>` of `->` do not count."""
    depth, i = 0, opening
    while i < len(text):
        letter = text[i]
        if letter == '"':
            i = text.index('"', i + 1)
        elif letter in "([{<":
            depth += 1
        elif letter in ")]}>" and text[i - 1 : i + 1] != "->":
            depth -= 1
            if depth == 0:
                return i
        i += 1
    return len(text)


def split(text: str) -> list[str]:
    """Split `text` at the commas outside of brackets, and drop empty parts."""
    parts, begin, i = [], 0, 0
    while i < len(text):
        if text[i] in "([{<":
            i = closing(text, i)
        elif text[i] == ",":
            parts.append(text[begin:i])
            begin = i + 1
        i += 1
    return [part for part in (*parts, text[begin:]) if part.strip()]


def canonical(entries: str) -> str:
    """Return the entries of a dictionary attribute in canonical form: sorted, with uniform white space.

    Braces around `entries` are optional."""
    inner = entries.strip()
    inner = inner[1:-1] if inner.startswith("{") and inner.endswith("}") else inner
    words = (re.sub(r"\s*([=,])\s*", r"\1", " ".join(part.split())) for part in split(inner))
    tight = (re.sub(r"(?<=[\[<{(]) | (?=[\]>})])", "", word) for word in words)
    return ", ".join(sorted(re.sub(r",", ", ", re.sub(r"=", " = ", word)) for word in tight))


def configurations(text: str) -> Iterator[str]:
    """Yield one string for each lowering configuration `#….lowering_config<…>` in `text`.

    The string has all entries of the configuration, sorted and with uniform white space. For example,
    `#iree_cpu.lowering_config<vector = [8,  4], cache=[64, 64]>` gives `cache = [64, 64], vector = [8, 4]`."""
    for match in _CONFIGURATION.finditer(text):
        yield canonical(text[match.end() : closing(text, match.end() - 1)])
