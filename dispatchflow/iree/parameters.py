"""Parameters of a module: weights that it loads from files at run time, by scope and key. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

FORMATS = (".irpa", ".gguf", ".safetensors")
"""The formats that the runtime reads; it tells them apart by these endings."""

_SCOPE = re.compile(r"// Parameter scope (?:`(.*)`|<global>) \(")
_ENTRY = re.compile(r" *\S+ \| +\S+ \| +(\d+) \| `(.*)`")
_NAMED = re.compile(r'parameter\.named<(?:"([^"\n]*)"::)?"([^"\n]*)"> : (tensor<[^>\n]*>)')

_HINTS = (
    (r"no provider registered that handles scopes like '(.*?)'", 'give its file: parameters = ["{}weights.irpa"]'),
    (r"no parameter found in index with key '", "no file in parameters has this weight"),
    (r"parameter `.*?` range out of bounds", "the file's weight is smaller than the module's"),
)


class Entry(NamedTuple):
    """A weight in a file."""

    scope: str
    key: str
    nbytes: int

    @property
    def spelt(self) -> str:
        return f"the weight '{self.key}' of the scope '{self.scope}'" if self.scope else f"the weight '{self.key}'"


class Named(NamedTuple):
    """A weight that a module loads, with its type as MLIR has it."""

    scope: str
    key: str
    type: str

    @property
    def spelt(self) -> str:
        return f"the weight '{self.key}' of the scope '{self.scope}'" if self.scope else f"the weight '{self.key}'"


def value(scope: str, name: str) -> str:
    """Return the value of `--parameters=` for a file; the empty scope is not written."""
    return f"{scope}={name}" if scope else name


def listing_argv(tool: str, parameters: Sequence[str]) -> tuple[str, ...]:
    """Return a command line of `iree-dump-parameters` that lists the weights in files."""
    return (tool, *(f"--parameters={value}" for value in parameters))


def listed(text: str) -> list[Entry]:
    """Return the weights that `iree-dump-parameters` listed."""
    found, scope = [], ""
    for line in text.splitlines():
        if match := _SCOPE.match(line):
            scope = match[1] or ""
        elif match := _ENTRY.match(line):
            found.append(Entry(scope, match[2], int(match[1])))
    return found


def named(text: str) -> list[Named]:
    """Return the weights that a printed module names, which are those that it may load."""
    return [Named(match[1] or "", match[2], match[3]) for match in _NAMED.finditer(text)]


def twice(entries: Sequence[Entry]) -> Entry | None:
    """Return the first weight that is also in another file of its scope; None if there is none.

    The runtime would silently take one of the two."""
    seen: set[tuple[str, str]] = set()
    for entry in entries:
        if entry[:2] in seen:
            return entry
        seen.add(entry[:2])
    return None


def hinted(reason: str) -> str:
    """Add to the runtime's message on a missing or too small weight how it is given."""
    for pattern, hint in _HINTS:
        if match := re.search(pattern, reason):
            scope = match[1] if match.re.groups else ""
            return f"{reason}; {hint.format(scope and f'{scope}=')}"
    return reason
