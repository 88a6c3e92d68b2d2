"""The sites of a program (the places that launch dispatches), and the operations that they compute."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import msgspec

Evidence = Literal["location", "data flow", "launch"]
"""The evidence that a site computes a source operation.

- `location`: an operation inside the site's dispatch has the location of the source operation.
- `data flow`: the locations inside the dispatch may be wrong, because loads, stores and moves of data may have the
  location of another operation. In the def-use graph, the source operation lies between the operations of the
  preceding dispatches and the operations of the following dispatches. If the graph has no such operation, the
  locations inside the dispatch are used after all. A location counts only if it names an operation that a preceding
  or following dispatch computes. For example, a copy into a padded tensor has the location of the convolution that
  reads the tensor.
- `launch`: the compiler added the dispatch after it had formed all other dispatches. The operation that launches the
  dispatch has the location of the source operation."""


class SourceOperation(msgspec.Struct, frozen=True):
    """An operation of the program as the user wrote it."""

    number: int
    """The operation's index, from 0, among all operations in the text that the compiler reads."""
    kind: str
    """The operation's MLIR name, such as `linalg.matmul`.

    For an ONNX node, it is the node's operator, such as `onnx.Conv`."""
    name: str | None = None
    """The operation's name in the model.

    For ONNX this is the node's name. For PyTorch it is a path of modules, such as `blocks.0.attn/linear`."""
    place: str | None = None
    """The place in the source, such as `net.mlir:12:8`: file, line and column."""
    computes: bool = True
    """True if the operation computes or moves elements of tensors.

    For example, this is False for reshapes and fills, and for arithmetic on single numbers, which the host computes."""
    constant: bool = False
    """True if the operation depends on no argument of a function.

    If this is true, the compiler may evaluate the operation in advance."""


class Origin(msgspec.Struct, frozen=True):
    """A source operation that a site computes, and how this is known."""

    operation: int
    """The operation's `SourceOperation.number`."""
    evidence: Evidence


class Site(msgspec.Struct, frozen=True):
    """A place of a program that launches a dispatch, and what is known about this dispatch."""

    number: int
    """The site's position in program order, from 1."""
    function: str
    """The name of the function that launches the dispatch.

    If an initializer launches the dispatch, the text names the globals in which the initializer stores its results,
    such as `weights, bias`."""
    at_load: bool
    """True if an initializer launches the dispatch. Initializers run before the first call."""
    executable: str
    export: str
    """The name of the kernel, as profilers show it. Equal dispatches share a kernel."""
    command_buffer: int
    """The number of the command buffer that contains the dispatch.

    The command buffers of a program are numbered from 0, in the order of their creation."""
    command: int
    """The dispatch's index among the dispatches of its command buffer, from 0."""
    origins: tuple[Origin, ...] = ()
    flops: int | None = None
    """The number of arithmetic operations in one execution; None if the number is unknown.

    A multiply-add counts as two."""
    traffic_bytes: int | None = None
    """Total size of one execution's operands and results, in bytes; None if a size is unknown."""
    dispatch: int | None = None
    """The dispatch's index in the module, from 0, before the compiler merges equal dispatches.

    The dispatch's location contains `df.site.N`, where N is this index, not `number`. The index is None if the
    compiler added the dispatch later."""
    elements: tuple[str, ...] = ()
    """The sorted element types of the operands of the site's arithmetic operations."""


class Program(msgspec.Struct, frozen=True):
    """The sites of a compiled program, and the operations that the user wrote in its source."""

    operations: tuple[SourceOperation, ...]
    """The user's operations. Constants, functions, loops and operations in a linalg body are left out."""
    sites: tuple[Site, ...]
    """The sites in program order."""
    unlabelled: str | None = None
    """The reason why the names and places of source operations could not be read; None if they were read."""

    calls: dict[str, tuple[str, ...]] = {}
    """A dict from the name of each function to the names of the functions that it calls."""

    def called_by(self, function: str) -> tuple[Site, ...]:
        """Return the sites that a call of the function may execute.

        They include the sites that run before the first call, while the program is loaded."""
        reached, waiting = {function}, [function]
        while waiting:
            new = set(self.calls.get(waiting.pop(), ())) - reached
            reached |= new
            waiting += new
        return tuple(site for site in self.sites if site.at_load or site.function in reached)

    def sites_of(self, operation: int) -> tuple[Site, ...]:
        """Return the sites that compute the source operation with the number `operation`."""
        return tuple(site for site in self.sites if any(origin.operation == operation for origin in site.origins))

    @property
    def shared(self) -> tuple[SourceOperation, ...]:
        """The user's operations whose MLIR locations occur in the dispatches of several sites."""
        count = Counter(o.operation for site in self.sites for o in site.origins if o.evidence == "location")
        return tuple(operation for operation in self.operations if count[operation.number] > 1)

    @property
    def unplaced(self) -> tuple[SourceOperation, ...]:
        """The source operations that compute something but belong to no site.

        An operation belongs to no site if, for example, the compiler has folded it."""
        placed = {origin.operation for site in self.sites for origin in site.origins}
        return tuple(each for each in self.operations if each.computes and each.number not in placed)

    @property
    def at_load(self) -> tuple[SourceOperation, ...]:
        """The source operations that only initializers compute; initializers run before the first call."""
        called = {origin.operation for site in self.sites if not site.at_load for origin in site.origins}
        loaded = {origin.operation for site in self.sites if site.at_load for origin in site.origins}
        return tuple(operation for operation in self.operations if operation.number in loaded - called)
