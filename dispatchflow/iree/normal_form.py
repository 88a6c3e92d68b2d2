"""Rewrite printed MLIR without locations and with new names, so that equal modules have equal texts.

For example, `%7 = linalg.matmul` becomes `%matmul.0`, and an alias such as `#map3` gets a digest in place of its
number. A small change of a module then changes few lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from dispatchflow.keys import digest_of

_SCOPE = re.compile(r"\s*(?:\"?(?:[\w]+\.)+(?:func|initializer|export)\"?|\"func\.func\")\b")
"""A pattern for the first line of a scope, such as a function.

In each scope, the new numbers of values start at 0."""
_DEFINITION = re.compile(r'\s*(%[\w$.:, %-]+?) = "?(?:[\w-]+\.)*([\w-]+)')
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|%[A-Za-z0-9_$.-]+|(?<![\w"])[#!][A-Za-z_][\w$.]*')
"""A token that may be renamed: a value, an alias, or an attribute or type of a dialect.

Strings match as well, so that names inside them are skipped."""
_VALUE = re.compile(r"%([A-Za-z0-9_$.-]+)")
_ALIAS = re.compile(r"([#!])([A-Za-z_][\w$]*) = (.*)")
_COUNTER = re.compile(r"_?\d+$")
_LONG = re.compile(r'"0x([0-9A-Fa-f]{64,})"')


def lines(text: str) -> list[str]:
    """Return the lines of a printed module in normal form."""
    aliases: dict[str, str] = {}
    found: list[str] = []
    scope: list[str] = []
    for line in _without_locations(_LONG.sub(_digest, text)):
        if (match := _ALIAS.fullmatch(line)) is not None:
            meant = _renamed(match[3], aliases)
            aliases[match[1] + match[2]] = name = f"{match[1]}{_base(match[2])}.{digest_of(meant.encode())[:6]}"
            found.append(f"{name} = {meant}")
            continue
        if _SCOPE.match(line):
            found += _scope(scope, aliases)
            scope = []
        scope.append(line)
    return [*dict.fromkeys(found[: (heads := _heads(found))]), *found[heads:], *_scope(scope, aliases)]


def _heads(found: list[str]) -> int:
    """Return how many lines at the beginning of `found` define aliases, such as `#map = …`."""
    return next((i for i, line in enumerate(found) if not line.startswith(("#", "!"))), len(found))


def _digest(match: re.Match[str]) -> str:
    return f'"0x… {len(match[1]) // 2} bytes, {digest_of(match[1].encode())[:12]}"'


def _without_locations(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if (alias := _ALIAS.match(line)) and (alias[2].startswith("loc") or alias[3].startswith("#llvm.di_")):
            continue  # LLVM's form of locations
        while (begin := line.find(" loc(")) >= 0 and (end := _closing(line, begin + 4)) is not None:
            line = line[:begin] + line[end:]
        yield line.rstrip()


def _closing(line: str, opening: int) -> int | None:
    depth, quoted = 0, False
    for place in range(opening, len(line)):
        if line[place] == '"' and line[place - 1] != "\\":
            quoted = not quoted
        elif not quoted and line[place] in "()":
            depth += 1 if line[place] == "(" else -1
            if depth == 0:
                return place + 1
    return None


def _base(name: str) -> str:
    """Return a name without the counter that makes it unique: `map3` becomes `map`, and `map` stays `map`."""
    return _COUNTER.sub("", name) or "value"


def _scope(lines_of: list[str], aliases: dict[str, str]) -> list[str]:
    """Return the lines of one function with their values and aliases renamed."""
    kinds: dict[str, str] = {}
    for line in lines_of:
        if (match := _DEFINITION.match(line)) is not None:
            for name in _VALUE.findall(match[1]):
                kinds.setdefault(name, match[2] if name.isdigit() else _hint(name))
    names: dict[str, str] = {}
    counts: Counter[str] = Counter()

    def renamed(match: re.Match[str]) -> str:
        token = match[0]
        if token[0] in "#!":
            return aliases.get(token, token)
        if token[0] != "%":
            return token
        if (known := names.get(token)) is None:
            name = token[1:]
            kind = kinds.get(name) or (_hint(name) if not name.isdigit() else "value")
            known = names[token] = f"%{kind}.{counts[kind]}"
            counts[kind] += 1
        return known

    return [_TOKEN.sub(renamed, line) for line in lines_of]


def _hint(name: str) -> str:
    """Return a value's name without the number that makes it unique: `c64_3` becomes `c64`."""
    if (plain := re.fullmatch(r"(.*?)_\d+", name)) is not None:
        name = plain[1]
    return "arg" if re.fullmatch(r"arg\d+", name) else name


def _renamed(text: str, aliases: dict[str, str]) -> str:
    return _TOKEN.sub(lambda match: aliases.get(match[0], match[0]), text)
