"""Parse the output of `iree-dump-module --output=metadata`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dispatchflow.errors import ToolError
from dispatchflow.mlir.attributes import split
from dispatchflow.mlir.functions import ASYNC, BUFFER_VIEW, Declaration, spelling

_NAME = re.compile(r"^// @(.*) : version \d+$", re.MULTILINE)
_EXPORTS = re.compile(r"^Exported Functions:\n(.*?)(?:^\S|\Z)", re.MULTILINE | re.DOTALL)
_UNDECLARED = re.compile(r"^  \[ *\d+\] (?P<name>.+?)\((?P<inputs>.*)\) -> \((?P<results>.*)\)$", re.MULTILINE)
_FUNCTION = re.compile(
    r"^  \[ *\d+\] (?P<name>.+?)\(.*\n +iree\.abi\.declaration: (?P<model>sync|async) func @.*?"
    r"\((?P<inputs>%.*?|)\)(?: -> \((?P<results>.*)\))?$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class ModuleMetadata:
    """The name and the exported functions of a compiled module."""

    name: str
    functions: Mapping[str, Declaration]
    """A mapping from the name of each function to the types of its operands and results.

    Some functions have no declaration in the compiled module, such as those that IREE imports from ONNX or PyTorch.
    The runtime then knows only which operands are tensors; their types are `!hal.buffer_view`."""
    fenced: frozenset[str]
    """The names of asynchronous functions, which also take a fence to wait on and a fence to signal."""


def parse(text: str) -> ModuleMetadata:
    """Return the metadata in `text`, the output of the tool.

    Raises:
        ToolError: the text has no module name.
    """
    if (named := _NAME.search(text)) is None:
        raise ToolError("the dump of the module has no name", {"found": text[:200]})
    functions, fenced = {}, set[str]()
    for match in _FUNCTION.finditer(text):
        functions[match["name"]] = Declaration(_types(match["inputs"]), _types(match["results"] or ""))
        if match["model"] == "async":
            fenced.add(match["name"])
    for match in _UNDECLARED.finditer(exports[1] if (exports := _EXPORTS.search(text)) else ""):
        if (name := match["name"]) not in functions and not name.startswith("__") and not name.endswith(ASYNC):
            functions[name] = Declaration(_untyped(match["inputs"]), _untyped(match["results"]))
    return ModuleMetadata(named[1], functions, frozenset(fenced))


def _untyped(values: str) -> tuple[str, ...]:
    """Return the types in a list such as `!vm.ref<?>, i32`; each reference becomes a buffer view."""
    return tuple(BUFFER_VIEW if value.startswith("!") else value for value in values.split(", ") if value)


def _types(values: str) -> tuple[str, ...]:
    """Return the types in a list of values, such as `%input0: tensor<4x8xf32>, %input1: i32`.

    The types are spelled as IREE's runtime tools spell them."""
    return tuple(spelling(value.partition(":")[2]) for value in split(values)) if values else ()
