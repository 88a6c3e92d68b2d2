"""The parameters of a module: weights that it loads from files at run time, named by scope and key."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

FORMATS = (".irpa", ".gguf", ".safetensors")
"""The suffixes of the files that the runtime reads; the suffix decides the format."""

_SCOPE = re.compile(r"// Parameter scope (?:`(.*)`|<global>) \(")
_ENTRY = re.compile(r" *\S+ \| +\S+ \| +(\d+) \| `(.*)`")
_NAMED = re.compile(r'parameter\.named<(?:"([^"\n]*)"::)?"([^"\n]*)"> : (tensor<[^>\n]*>)')

_HINTS = (
    (r"no provider registered that handles scopes like '(.*?)'", 'give its file: parameters = ["{}weights.irpa"]'),
    (r"no parameter found in index with key '", "no file in parameters has this weight"),
    (r"parameter `.*?` range out of bounds", "the file's weight is smaller than the module's"),
)


class Entry(NamedTuple):
    """A weight in a file: its scope, its key and its size in bytes."""

    scope: str
    key: str
    nbytes: int

    @property
    def spelt(self) -> str:
        return f"the weight '{self.key}' of the scope '{self.scope}'" if self.scope else f"the weight '{self.key}'"


class Named(NamedTuple):
    """A weight that a module may load, with its MLIR type: `tensor<4x8xf32>`."""

    scope: str
    key: str
    type: str

    @property
    def spelt(self) -> str:
        return f"the weight '{self.key}' of the scope '{self.scope}'" if self.scope else f"the weight '{self.key}'"


def value(scope: str, name: str) -> str:
    """Return the value of `--parameters=` for a file: `scope=name`, or `name` for the empty scope."""
    return f"{scope}={name}" if scope else name


def listing_argv(tool: str, parameters: Sequence[str]) -> tuple[str, ...]:
    """Return a command line of `iree-dump-parameters` that lists the weights in files."""
    return (tool, *(f"--parameters={value}" for value in parameters))


def listed(text: str) -> list[Entry]:
    """Parse the weights that `iree-dump-parameters` printed."""
    found, scope = [], ""
    for line in text.splitlines():
        if match := _SCOPE.match(line):
            scope = match[1] or ""
        elif match := _ENTRY.match(line):
            found.append(Entry(scope, match[2], int(match[1])))
    return found


def named(text: str) -> list[Named]:
    """Return the weights that a printed module names; a call may load all or some of them."""
    return [Named(match[1] or "", match[2], match[3]) for match in _NAMED.finditer(text)]


def twice(entries: Sequence[Entry]) -> Entry | None:
    """Return the first weight with the scope and key of an earlier one; None if there is none.

    The runtime would silently take one of the two."""
    seen: set[tuple[str, str]] = set()
    for entry in entries:
        if entry[:2] in seen:
            return entry
        seen.add(entry[:2])
    return None


def hinted(reason: str) -> str:
    """Return the runtime's message, with a hint if it says that a weight is missing or too small."""
    for pattern, hint in _HINTS:
        if match := re.search(pattern, reason):
            scope = match[1] if match.re.groups else ""
            return f"{reason}; {hint.format(scope and f'{scope}=')}"
    return reason
