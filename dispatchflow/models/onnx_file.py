"""Read the graph's name and the names of weight files from an ONNX file, without the package `onnx`.

The import of `onnx` would delay each expansion of a spec into cases by half a second. An ONNX file is a protobuf
message (onnx.proto)."""

from __future__ import annotations

from collections.abc import Iterator

from dispatchflow.workload import ENTRY

ENDING = ".onnx"
# The numbers of fields in onnx.proto:
_GRAPH = 7  # of a model
_NODE, _NAME, _INITIALIZER = 1, 2, 5  # of a graph
_ATTRIBUTE = 5  # of a node
_TENSORS, _GRAPHS = (5, 10), (6, 11)  # of an attribute
_TENSOR_NAME, _EXTERNAL = 8, 13  # of a tensor
_KEY, _VALUE = 1, 2  # of an entry of external data


def function(content: bytes) -> str:
    """Return the name of the MLIR function into which the ONNX graph is converted.

    `content` is the ONNX file. If the graph has no name or cannot be read, the result is `main`."""
    for graph in _of(memoryview(content), _GRAPH):
        for name in _of(graph, _NAME):
            return bytes(name).decode(errors="replace") or ENTRY
    return ENTRY


def weight_files(content: bytes) -> dict[str, str]:
    """Return a dict from the path of each weight file to the name of the file's first tensor.

    `content` is the ONNX file. The paths are relative to the folder of the ONNX file."""
    found: dict[str, str] = {}
    if b"location" not in content:  # this search takes some ms, reading every node takes seconds
        return found
    for graph in _of(memoryview(content), _GRAPH):
        for tensor in _tensors(graph):
            for path in _locations(tensor):
                name = next(_of(tensor, _TENSOR_NAME), memoryview(b""))
                found.setdefault(path, bytes(name).decode(errors="replace"))
    return found


def _tensors(graph: memoryview) -> Iterator[memoryview]:
    yield from _of(graph, _INITIALIZER)
    for node in _of(graph, _NODE):
        for attribute in _of(node, _ATTRIBUTE):
            yield from _of(attribute, *_TENSORS)
            for inner in _of(attribute, *_GRAPHS):
                yield from _tensors(inner)


def _locations(tensor: memoryview) -> Iterator[str]:
    for entry in _of(tensor, _EXTERNAL):
        key, value = (next(_of(entry, number), memoryview(b"")) for number in (_KEY, _VALUE))
        if bytes(key) == b"location":
            yield bytes(value).decode(errors="replace")


def _of(message: memoryview, *numbers: int) -> Iterator[memoryview]:
    at, end = 0, len(message)
    while at < end:
        tag, at = _varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            _, at = _varint(message, at)
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        elif kind == 2:
            size, at = _varint(message, at)
            if at + size > end:
                return
            if number in numbers:
                yield message[at : at + size]
            at += size
        else:
            return


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """Parse the varint at offset `at`; return (value, offset after it)."""
    value = shift = 0
    while at < len(message):
        byte = message[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            break
    return value, at
