"""Define the types of the JSON that `_tagger.py` writes, and build that script's command line.

The script puts tags into the locations of operations before a compile, and reads them afterwards."""

from __future__ import annotations

from pathlib import Path

import msgspec


class Node(msgspec.Struct, frozen=True):
    """An operation of a module, with references to the values that the operation uses."""

    kind: str
    """The MLIR name, such as `linalg.matmul`; for an ONNX node the operator, such as `onnx.Conv`."""
    parent: int | None
    """The index of the node that contains the operation; None for the module itself."""
    symbol: str | None
    """The name of a function or a global; None for other operations."""
    tensor: bool
    """True if an operand or a result is a tensor."""
    results: int
    uses: tuple[int, ...]
    """The indices of the nodes whose results are operands of this operation."""
    arguments: tuple[tuple[int, int], ...]
    """The operands that are block arguments, each as a pair (N, i).

    N is the index of the node that has the block, and i is the index of the argument in the block. If the node has
    several blocks, the pair does not tell which of them it is."""
    name: str | None = None
    place: str | None = None


class Source(msgspec.Struct, frozen=True):
    """The operations of the module that is given to the compiler.

    The operation of `nodes[N]` has the location `df.op.N`. The module, `nodes[0]`, has no such location."""

    nodes: tuple[Node, ...]
    unlabelled: str | None = None
    """The reason why the operations' names and places in the source could not be read.

    None if they were read."""


class Scalar(msgspec.Struct, frozen=True):
    """A scalar operation in the body of a linalg operation."""

    kind: str
    origins: tuple[int, ...] = ()


class Computation(msgspec.Struct, frozen=True):
    """An operation inside a dispatch."""

    kind: str
    origins: tuple[int, ...] = ()
    """The number N of each tag `df.op.N` in the operation's location: the index of a source operation."""
    types: tuple[str, ...] = ()
    """The types of the operation's operands, such as `tensor<4x?xf32>`."""
    maps: tuple[str, ...] = ()
    """The indexing map of each operand of a linalg operation, such as `(d0, d1) -> (d1)`."""
    tensor: bool = True
    scalars: tuple[Scalar, ...] = ()


class Dispatch(msgspec.Struct, frozen=True):
    """A dispatch, as it is before the compiler merges equal dispatches.

    The dispatch at index N of `Dispatches.dispatches` has the tag `df.site.N` in its location."""

    node: int
    operations: tuple[Computation, ...]
    operands: tuple[str, ...]
    results: tuple[str, ...]


class Dispatches(msgspec.Struct, frozen=True):
    """The module after the compiler has formed dispatches.

    The field `nodes` has an entry for each operation outside dispatches, and one for each dispatch. The operations
    inside a dispatch have no entries in `nodes`; the field `dispatches` describes them."""

    nodes: tuple[Node, ...]
    dispatches: tuple[Dispatch, ...]


class Launch(msgspec.Struct, frozen=True):
    """A place of the host program that launches a dispatch; see `models.site.Site` for most fields."""

    sites: tuple[int, ...]
    """The number N of each tag `df.site.N` in the launch's location.

    Usually there is one number. There is none if the compiler added the dispatch after the tags were written."""
    origins: tuple[int, ...]
    """The number N of each tag `df.op.N` in the launch's location: the index of a source operation."""
    function: str
    at_load: bool
    executable: str
    export: str
    command_buffer: int
    command: int


class Launches(msgspec.Struct, frozen=True):
    """All places of the host program that launch a dispatch, in program order."""

    launches: tuple[Launch, ...]
    calls: dict[str, tuple[str, ...]] = {}
    """A dict from the name of each function to the names of the functions that it calls."""


_SCRIPT = Path(__file__).with_name("_tagger.py")


def tagger_argv(python: str, bindings: str, command: str, source: str, **files: str) -> tuple[str, ...]:
    """Return the command line that runs a command of `_tagger.py` on the module in the file `source`.

    `bindings` is the folder of IREE's Python bindings. Each keyword argument becomes an option:
    `facts="launches.json"` becomes `--facts=launches.json`. The files are in the working directory."""
    options = (f"--{option}={name}" for option, name in files.items())
    return (python, "-I", "-S", str(_SCRIPT), command, f"--bindings={bindings}", f"--input={source}", *options)
