"""The sites of a program, which are the places that launch a dispatch, with their source operations."""

from __future__ import annotations

from typing import Literal

import msgspec

Evidence = Literal["location", "data flow"]
"""The evidence that a site computes an operation.

`location`: an operation inside the dispatch has the operation's location. `data flow`: no location is left; the site
moves data on an edge of the source's def-use graph, on which the operation is."""


class SourceOperation(msgspec.Struct, frozen=True):
    """An operation of the program as the user wrote it."""

    number: int
    """Its place in the printed module, from 0."""
    kind: str
    """`linalg.matmul`, or an ONNX operator, `onnx.Conv`."""
    name: str | None = None
    """Its importer's name: of an ONNX node, or a path of PyTorch modules, `blocks.0.attn/linear`."""
    place: str | None = None
    """`net.mlir:12:8`."""


class Origin(msgspec.Struct, frozen=True):
    """A source operation that a site computes, and how this is known."""

    operation: int
    """The `number` of the operation."""
    evidence: Evidence


class Site(msgspec.Struct, frozen=True):
    """A place of a program that launches a dispatch."""

    number: int
    """Its place in program order, from 1."""
    function: str
    """The function that launches it, or the initializer of a global."""
    at_load: bool
    """Whether an initializer launches it, before the first call."""
    executable: str
    export: str
    """The name of the kernel, as profilers show it; equal dispatches share it."""
    command_buffer: int
    """The number of its command buffer in the program, from 0, in order of creation."""
    command: int
    """Its place among the dispatches of its command buffer, from 0."""
    origins: tuple[Origin, ...] = ()
    flops: int | None = None
    """Arithmetic operations of one execution, a multiply-add as two; None if unknown."""
    traffic_bytes: int | None = None
    """Bytes of operands and results of one execution, each once; None if a size is unknown."""


class Program(msgspec.Struct, frozen=True):
    """A compiled program as the sum of its sites."""

    operations: tuple[SourceOperation, ...]
    sites: tuple[Site, ...]
