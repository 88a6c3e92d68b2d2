"""The sites of a program, which are the places that launch dispatches, and their source operations."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import msgspec

Evidence = Literal["location", "data flow", "launch"]
"""The evidence that a site computes an operation.

`location`: an operation inside the dispatch has the source operation's location. `data flow`: no such location is left,
but the source operation lies in the def-use graph between the operations of the dispatches before and after this one.
`launch`: the compiler added the dispatch after it had formed the others, and the operation that launches it has the
source operation's location."""


class SourceOperation(msgspec.Struct, frozen=True):
    """An operation of the program as the user wrote it."""

    number: int
    """The operation's index in the module as it is printed for the compiler, from 0."""
    kind: str
    """The operation's MLIR name, `linalg.matmul`, or for ONNX the operator, `onnx.Conv`."""
    name: str | None = None
    """The name in the model: an ONNX node's, or a path of PyTorch modules, `blocks.0.attn/linear`."""
    place: str | None = None
    """The place in the source, `net.mlir:12:8`."""
    computes: bool = True
    """Whether the operation computes or moves the elements of tensors.

    False for reshapes, fills, and arithmetic of single numbers, which the host does."""
    constant: bool = False
    """Whether the operation depends on no argument of a function, so that the compiler may evaluate it."""


class Origin(msgspec.Struct, frozen=True):
    """A source operation that a site computes, and how this is known."""

    operation: int
    """The `number` of the operation."""
    evidence: Evidence


class Site(msgspec.Struct, frozen=True):
    """A place of a program that launches a dispatch."""

    number: int
    """The site's position in program order, from 1."""
    function: str
    """The function, or the initializer of a global, that contains the site."""
    at_load: bool
    """Whether the site is in an initializer, which runs before the first call."""
    executable: str
    export: str
    """The name of the kernel, as profilers show it; equal dispatches have one kernel."""
    command_buffer: int
    """The number of the site's command buffer in the program, from 0, in order of creation."""
    command: int
    """The site's index among the dispatches of its command buffer, from 0."""
    origins: tuple[Origin, ...] = ()
    flops: int | None = None
    """Arithmetic operations of one execution; a multiply-add counts as two. None if unknown."""
    traffic_bytes: int | None = None
    """Total size of one execution's operands and results, in bytes; None if a size is unknown."""
    dispatch: int | None = None
    """The number N of the dispatch's tag, `df.site.N`, after the phase `flow`; None without a tag."""
    elements: tuple[str, ...] = ()
    """The element types of the tensors in the site's arithmetic, sorted; empty without arithmetic."""


class Program(msgspec.Struct, frozen=True):
    """The sites of a compiled program, and the operations of its source."""

    operations: tuple[SourceOperation, ...]
    """The user's operations, without constants, functions, loops and operations in a linalg body."""
    sites: tuple[Site, ...]
    """The sites in program order."""
    unlabelled: str | None = None
    """The reason why names and places in the source could not be read; None if they could."""

    calls: dict[str, tuple[str, ...]] = {}
    """Function → the functions that it calls."""

    def called_by(self, function: str) -> tuple[Site, ...]:
        """Return the sites that a call of the function may execute, and those that run at load."""
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
        """The source operations that several sites compute."""
        count = Counter(o.operation for site in self.sites for o in site.origins if o.evidence == "location")
        return tuple(operation for operation in self.operations if count[operation.number] > 1)

    @property
    def unplaced(self) -> tuple[SourceOperation, ...]:
        """The source operations that compute but belong to no site; for example, the compiler folded them."""
        placed = {origin.operation for site in self.sites for origin in site.origins}
        return tuple(each for each in self.operations if each.computes and each.number not in placed)

    @property
    def at_load(self) -> tuple[SourceOperation, ...]:
        """The source operations that only initializers compute."""
        called = {origin.operation for site in self.sites if not site.at_load for origin in site.origins}
        loaded = {origin.operation for site in self.sites if site.at_load for origin in site.origins}
        return tuple(operation for operation in self.operations if operation.number in loaded - called)
