"""Find, in the compiler's log, the ONNX node that the compiler cannot lower."""

from __future__ import annotations

import re

from dispatchflow.mlir.attributes import unescaped

_ERROR = re.compile(r"<stdin>:(\d+):\d+: error: ")
_OPERATOR = re.compile(r"\btorch\.operator \"onnx\.([^\"]+)\"")
_LOCATION = re.compile(r"loc\((#loc\d*|\"(?:[^\"\\]|\\.)*\")(?:\([^()]*\))?\)\s*\{?$")
_ALIAS = re.compile(r"^(#loc\d*) = loc\((\"(?:[^\"\\]|\\.)*\")", re.MULTILINE)


def blamed(log: str, printed: str, labelled: str) -> str | None:
    """Return the ONNX node at which the compiler reports its first error, as `node 'conv1' (Conv)`.

    The result is None if there is no error, or the first error is not at an ONNX node. `printed` is the text of the
    compiled module without locations. `labelled` is the same module with the nodes' names as locations."""
    if (error := _ERROR.search(log)) is None:
        return None
    lines = printed.split("\n", line := int(error[1]))[:line]
    if len(lines) < line or (operator := _OPERATOR.search(lines[-1])) is None:
        return None
    number = sum(1 for each in lines if _OPERATOR.search(each))
    names = _names(labelled)
    name = names[number - 1] if number <= len(names) else None
    return f"node '{name}' ({operator[1]})" if name else f"a node {operator[1]}"


def _names(labelled: str) -> list[str | None]:
    """Return the names of all ONNX nodes in a module's text, in order; None for a node without a name."""
    aliases = {match[1]: match[2] for match in _ALIAS.finditer(labelled)}
    found: list[str | None] = []
    for line in labelled.splitlines():
        if _OPERATOR.search(line):
            place = _LOCATION.search(line)
            written = aliases.get(place[1], place[1]) if place else ""
            found.append(unescaped(written[1:-1]) if written.startswith('"') else None)
    return found
