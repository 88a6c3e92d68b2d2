"""Define the types of the facts that the script `_tagger.py` writes, and its command line."""

from __future__ import annotations

from pathlib import Path

import msgspec


class Node(msgspec.Struct, frozen=True):
    """An operation of a module, with the values that it uses."""

    kind: str
    """The MLIR name, `linalg.matmul`; for an ONNX node the operator, `onnx.Conv`."""
    parent: int | None
    """The number of the node that contains the operation; None for the module itself."""
    symbol: str | None
    """The name of a function or a global; None for other operations."""
    tensor: bool
    """Whether an operand or a result is a tensor."""
    results: int
    uses: tuple[int, ...]
    """The numbers of the nodes whose results are operands of this one."""
    arguments: tuple[tuple[int, int], ...]
    """(node, i) for each operand that is a block argument: argument i of an enclosing node's block."""
    name: str | None = None
    place: str | None = None


class Source(msgspec.Struct, frozen=True):
    """The module as it is printed for the compiler; node N has the tag `df.op.N`."""

    nodes: tuple[Node, ...]
    unlabelled: str | None = None
    """The reason why names and places in the source could not be read; None if they could."""


class Scalar(msgspec.Struct, frozen=True):
    """A scalar operation in the body of a linalg operation."""

    kind: str
    origins: tuple[int, ...] = ()


class Computation(msgspec.Struct, frozen=True):
    """An operation inside a dispatch."""

    kind: str
    origins: tuple[int, ...] = ()
    """The numbers N of the tags `df.op.N` in its location."""
    types: tuple[str, ...] = ()
    """The types of its operands, `tensor<4x?xf32>`."""
    maps: tuple[str, ...] = ()
    """The indexing map of each operand, `(d0, d1) -> (d1)`."""
    tensor: bool = True
    scalars: tuple[Scalar, ...] = ()


class Dispatch(msgspec.Struct, frozen=True):
    """A dispatch, before the compiler merges equal dispatches.

    The dispatch at index N of `Dispatches` has the tag `df.site.N`."""

    node: int
    operations: tuple[Computation, ...]
    operands: tuple[str, ...]
    results: tuple[str, ...]


class Dispatches(msgspec.Struct, frozen=True):
    """The module after its dispatches are formed. Operations in dispatches are not among the nodes."""

    nodes: tuple[Node, ...]
    dispatches: tuple[Dispatch, ...]


class Launch(msgspec.Struct, frozen=True):
    """A place of the host program that launches a dispatch; see `models.site.Site` for most fields."""

    sites: tuple[int, ...]
    """The N of each tag `df.site.N` in the launch's location.

    There is one, or none if the compiler added the dispatch after the tags were written."""
    origins: tuple[int, ...]
    """The N of each tag `df.op.N` in the launch's location."""
    function: str
    at_load: bool
    executable: str
    export: str
    command_buffer: int
    command: int


class Launches(msgspec.Struct, frozen=True):
    """The launches in the order of the host program."""

    launches: tuple[Launch, ...]
    calls: dict[str, tuple[str, ...]] = {}
    """Function's name → names of the functions that it calls."""


_SCRIPT = Path(__file__).with_name("_tagger.py")


def tagger_argv(python: str, bindings: str, command: str, source: str, **files: str) -> tuple[str, ...]:
    """Return a command line of `_tagger.py`; `files` maps an option to a file in the working directory."""
    options = (f"--{option}={name}" for option, name in files.items())
    return (python, "-I", "-S", str(_SCRIPT), command, f"--bindings={bindings}", f"--input={source}", *options)
