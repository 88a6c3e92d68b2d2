"""The parameters of a module: weights that it loads from files at run time.

A weight is named by a scope and a key."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, BinaryIO, NamedTuple

from dispatchflow.errors import SpecError

TOOL = "iree-dump-parameters"
FORMATS = (".irpa", ".gguf", ".safetensors")
"""The suffixes of the parameter files that the runtime reads. The suffix decides the format of a file."""

_SCOPE = re.compile(r"// Parameter scope (?:`(.*)`|<global>) \(")
_ENTRY = re.compile(r" *\S+ \| +\S+ \| +(\d+) \| `(.*)`")
_NAMED = re.compile(r'parameter\.named<(?:"([^"\n]*)"::)?"([^"\n]*)"> : (tensor<[^>\n]*>)')

_MISSING_SCOPE = re.compile(r"no provider registered that handles scopes like '(.*?)'")
_MISSING_KEY = re.compile(r"no parameter found in index with key '(.*?)'")

_HINTS = (
    (_MISSING_SCOPE.pattern, 'give its file: parameters = ["{}weights.irpa"]'),
    (_MISSING_KEY.pattern, "no file in parameters has this weight"),
    (r"parameter `.*?` range out of bounds", "the file's weight is smaller than the module's"),
)


_NEAREST = 5

_SAFETENSORS = {"F64": "f64", "F32": "f32", "F16": "f16", "BF16": "bf16", "I64": "i64", "I32": "i32", "I16": "i16"}
"""A dict from an element type in a `.safetensors` file to the same type in MLIR.

Types of 8 bits are left out, because a file may use them to store elements of another type."""


def split(written: str) -> tuple[str, str]:
    """Return the scope and the file that `SCOPE=FILE` or `FILE` names; a file alone has the scope ''."""
    scope, equals, name = written.partition("=")
    return (scope.strip(), name.strip()) if equals else ("", written.strip())


def checked(written: str, facts: Mapping[str, Any], form: str) -> tuple[str, str]:
    """Return the scope and the file that `SCOPE=FILE` or `FILE` names.

    Args:
        facts: where `written` was found, for error messages.
        form: an example of the right form, for error messages.

    Raises:
        SpecError: the format of the file is not known."""
    scope, name = split(written)
    if PurePath(name).suffix not in FORMATS:
        facts = {**facts, "found": written, "formats": ", ".join(FORMATS)}
        hint = f"Write {form}: the scope that the module names, and a file."
        raise SpecError("the format of these parameters is not known", facts, hint)
    return scope, name


class Entry(NamedTuple):
    """A weight in a file: its scope, its key and its size in bytes."""

    scope: str
    key: str
    nbytes: int

    @property
    def spelt(self) -> str:
        return f"the weight '{self.key}' of the scope '{self.scope}'" if self.scope else f"the weight '{self.key}'"


class Named(NamedTuple):
    """A weight that a module may load, with its MLIR type, such as `tensor<4x8xf32>`."""

    scope: str
    key: str
    type: str

    @property
    def spelt(self) -> str:
        return f"the weight '{self.key}' of the scope '{self.scope}'" if self.scope else f"the weight '{self.key}'"


def value(scope: str, name: str) -> str:
    """Return the value of the option `--parameters=` for the file `name`.

    `scope` is the scope of the file's weights."""
    return f"{scope}={name}" if scope else name


def listing_argv(tool: str, parameters: Sequence[str]) -> tuple[str, ...]:
    """Return a command line of `iree-dump-parameters` that lists the weights in files.

    Each of `parameters` names one file, as a value of the option `--parameters=`."""
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
    """Return the weights that a printed module names."""
    return [Named(match[1] or "", match[2], match[3]) for match in _NAMED.finditer(text)]


def twice(entries: Sequence[Entry]) -> Entry | None:
    """Return the first weight that has the same scope and key as an earlier weight.

    Returns None if there is no such weight. The runtime would silently take one of the two weights."""
    seen: set[tuple[str, str]] = set()
    for entry in entries:
        if entry[:2] in seen:
            return entry
        seen.add(entry[:2])
    return None


def hinted(reason: str) -> str:
    """Add a hint to `reason`, the runtime's message, if a weight is missing or has too few bytes."""
    for pattern, hint in _HINTS:
        if match := re.search(pattern, reason):
            scope = match[1] if match.re.groups else ""
            return f"{reason}; {hint.format(scope and f'{scope}=')}"
    return reason


def given_instead(reason: str, entries: Sequence[Entry]) -> str:
    """Return a text to add to an error message: the available names most similar to a missing name.

    The text is empty if `reason`, the runtime's message, is not about a missing weight or a missing scope of
    weights."""
    import difflib  # only on the way to an error message

    if match := _MISSING_SCOPE.search(reason):
        what, known = "scopes given", {entry.scope: repr(entry.scope) if entry.scope else "none" for entry in entries}
    elif match := _MISSING_KEY.search(reason):
        what, known = "nearest weights", {entry.key: repr("::".join(filter(None, entry[:2]))) for entry in entries}
    else:
        return ""
    near = difflib.get_close_matches(match[1], known, n=_NEAREST, cutoff=0)
    return f"; {what}: {', '.join(known[name] for name in near)}" if near else ""


def safetensors_types(content: BinaryIO) -> dict[str, str]:
    """Return a mapping from each weight's key to its MLIR element type, read from a `.safetensors` file.

    Weights whose types are not in `_SAFETENSORS` are left out."""
    (size,) = struct.unpack("<Q", content.read(8))
    header = json.loads(content.read(size))
    types = {key: _SAFETENSORS.get(entry.get("dtype")) for key, entry in header.items()}
    return {key: type_ for key, type_ in types.items() if type_ is not None}


def other_type(held: str | None, element: str) -> bool:
    """Return whether a weight is known to have another element type in its file than in the module.

    `held` is the type in the file, or None if it is unknown. `element` is the type in the module."""
    return held is not None and held != element and element in _SAFETENSORS.values()
