"""The sites of a program, which are the places that launch a dispatch, with their source operations."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import msgspec

Evidence = Literal["location", "data flow", "launch"]
"""The evidence that a site computes an operation.

`location`: an operation inside the dispatch has the operation's location. `data flow`: no location is left; the site
moves data on an edge of the source's def-use graph, and the operation is on that edge, or at its end. `launch`: the
compiler added the dispatch after it had formed the others, and the place that launches it has the location."""


class SourceOperation(msgspec.Struct, frozen=True):
    """An operation of the program as the user wrote it."""

    number: int
    """Its place in the printed module, from 0."""
    kind: str
    """`linalg.matmul`, or an ONNX operator, `onnx.Conv`."""
    name: str | None = None
    """The name in the model: an ONNX node's, or a path of PyTorch modules, `blocks.0.attn/linear`."""
    place: str | None = None
    """`net.mlir:12:8`."""
    computes: bool = True
    """Whether it computes or moves the elements of tensors.

    It does not if it is a reshape, a fill, or arithmetic of single numbers, which the host does."""
    constant: bool = False
    """Whether it depends on no argument of a function, so that the compiler may compute it."""


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
    dispatch: int | None = None
    """The number of its dispatch: N of the tag `df.site.N` in the module `flow`; None without a tag."""
    elements: tuple[str, ...] = ()
    """The element types that its arithmetic reads and writes, sorted: `f32`; empty if it has none."""


class Program(msgspec.Struct, frozen=True):
    """A compiled program as the sum of its sites."""

    operations: tuple[SourceOperation, ...]
    """The user's operations.

    Constants, functions, loops, and what is inside a linalg operation's body are not among them."""
    sites: tuple[Site, ...]
    """The sites in program order."""
    unlabelled: str | None = None
    """Why names and places are not known; None if they are, as far as the source has them."""

    calls: dict[str, tuple[str, ...]] = {}
    """Function → the functions that it calls."""

    def called_by(self, function: str) -> tuple[Site, ...]:
        """Return the sites that a call of a function may launch; sites of other functions are left out."""
        reached, waiting = {function}, [function]
        while waiting:
            new = set(self.calls.get(waiting.pop(), ())) - reached
            reached |= new
            waiting += new
        return tuple(site for site in self.sites if site.at_load or site.function in reached)

    def sites_of(self, operation: int) -> tuple[Site, ...]:
        """Return the sites that have a source operation among their origins."""
        return tuple(site for site in self.sites if any(origin.operation == operation for origin in site.origins))

    @property
    def shared(self) -> tuple[SourceOperation, ...]:
        """The source operations that several sites have by their locations."""
        count = Counter(o.operation for site in self.sites for o in site.origins if o.evidence == "location")
        return tuple(operation for operation in self.operations if count[operation.number] > 1)

    @property
    def unplaced(self) -> tuple[SourceOperation, ...]:
        """The source operations that compute something and are in no site: folded into others, or constant."""
        placed = {origin.operation for site in self.sites for origin in site.origins}
        return tuple(each for each in self.operations if each.computes and each.number not in placed)

    @property
    def at_load(self) -> tuple[SourceOperation, ...]:
        """The source operations that only initializers compute."""
        called = {origin.operation for site in self.sites if not site.at_load for origin in site.origins}
        loaded = {origin.operation for site in self.sites if site.at_load for origin in site.origins}
        return tuple(operation for operation in self.operations if operation.number in loaded - called)
