"""Read the operands and results of a program's sites from what the function `df_capture` returns.

A site is a place of the program that launches a dispatch. The script `_capturer.py` adds `df_capture` to the program.
`df_capture` calls the program and returns the content of slots. A slot is a global that holds a captured value. The
slot of a scalar is an i64 with the scalar's bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from dispatchflow.models import work

_SCRIPT = Path(__file__).with_name("_capturer.py")
FUNCTION = "df_capture"
"""The name of the function that the script `_capturer.py` adds to a module."""

_WIDE = ("i64", "f64", "index")


class Value(msgspec.Struct, frozen=True):
    """An operand or a result of a dispatch."""

    value: str
    """The name of the operand (`in0`) or result (`out1`)."""
    type: str
    """The MLIR type, such as `tensor<4x?xf32>` or `index`."""
    slot: int | None
    """The index, in `Capturing.slots`, of the global that holds the value.

    It is None if the value is not captured."""
    dims: tuple[int, ...] = ()
    """The indices, in `Capturing.slots`, of the globals that hold the value's dynamic sizes."""
    why: str | None = None
    """The reason why the value is not captured; None if it is captured."""


class Dispatch(msgspec.Struct, frozen=True):
    """A dispatch whose operands and results are captured."""

    dispatch: int
    """The number N in the location `df.site.N`, which identifies the dispatch in the module."""
    executions: int
    """The index, in `Capturing.slots`, of the global that counts the dispatch's executions."""
    values: tuple[Value, ...]


class Capturing(msgspec.Struct, frozen=True):
    """The description of a module that stores its dispatches' operands and results in globals (slots).

    The module's function `df_capture` returns the original function's results, then the content of all slots."""

    results: tuple[str, ...]
    """The MLIR types of the original function's results."""
    slots: tuple[str, ...]
    """The types of the slots, which are globals that hold captured values or count executions.

    The type is `!hal.buffer_view` for a tensor, and `i64` for a scalar or a count."""
    dispatches: tuple[Dispatch, ...]
    undefined: int = 0
    """The number of uninitialized tensors in the program.

    The script `_capturer.py` fills these tensors with a constant."""

    def nbytes(self) -> int:
        """Return the total size, in bytes, of the captured tensors whose sizes are static."""
        types = (value.type for each in self.dispatches for value in each.values if value.slot is not None)
        return sum(work.nbytes(type_) or 0 for type_ in types)


class Tensor(msgspec.Struct, frozen=True):
    """A captured operand or result: a tensor or a scalar."""

    site: int
    value: str
    """The name of the operand (`in0`) or result (`out1`)."""
    type: str
    """The type with the sizes at run time, as IREE's tools spell it.

    Examples are `4x8xf32`, `tensor<f32>` (rank 0), and `index` or `i32` for a scalar."""
    nbytes: int
    undefined: bool = False
    """True if some elements depend on memory that the program never wrote; a mask marks these elements."""

    @property
    def name(self) -> str:
        """The name under which the tensor's bytes are stored: `3.in0` for the first operand of site 3."""
        return f"{self.site}.{self.value}"

    @property
    def undefined_name(self) -> str:
        """The name under which the mask of the tensor's undefined elements is stored: `3.in0.undefined`."""
        return f"{self.name}.undefined"


class Missing(msgspec.Struct, frozen=True):
    """A site, or an operand or result of a site, that a capture does not contain."""

    site: int
    value: str | None
    """The name of the operand (`in0`) or result (`out1`); None if nothing of the site is captured."""
    reason: str


class Capture(msgspec.Struct, frozen=True):
    """The captured operands and results of a program's sites, from one execution of each site."""

    tensors: tuple[Tensor, ...]
    missing: tuple[Missing, ...] = ()
    executions: dict[str, int] = {}
    """A dict from the number of each site, as text, to the number of its executions in the captured call."""

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.tensors)


Read = Callable[[int], bytes]
"""A function that takes the index of a slot, and returns the content of the slot as bytes.

A slot is a global that holds a captured value. The bytes are the elements of a tensor, or the 8 little-endian bytes of
a scalar."""


def capture(
    made: Capturing, sites: Mapping[int, int], read: Read, execution: int | None = None
) -> tuple[Capture, dict[str, bytes]]:
    """Return a description of the captured values, and a dict from their names to their bytes.

    The name `3.in0` is the first operand of site 3. `sites` is a dict from each dispatch's number to the number of
    its site. `execution` is the number of the execution that was captured at each site: 1 for the first, None for the
    last."""
    tensors: list[Tensor] = []
    missing: list[Missing] = []
    executions: dict[str, int] = {}
    contents: dict[str, bytes] = {}
    for each in made.dispatches:
        site, count = sites[each.dispatch], _number(read(each.executions))
        executions[str(site)] = count
        if (why := _not_run(count, execution)) is not None:
            missing.append(Missing(site, None, why))
            continue
        for value in each.values:
            if value.slot is None:
                missing.append(Missing(site, value.value, value.why or "it is not captured"))
                continue
            content = read(value.slot)
            if not value.type.startswith("tensor<"):
                content = content[: 8 if value.type in _WIDE else 4]
            spelling = spelt(value.type, [_number(read(dim)) for dim in value.dims])
            tensors.append(Tensor(site, value.value, spelling, len(content)))
            contents[tensors[-1].name] = content
    found = {each.dispatch for each in made.dispatches}
    missing += [Missing(site, None, GONE) for dispatch, site in sites.items() if dispatch not in found]
    return Capture(tuple(tensors), tuple(missing), executions), contents


GONE = "its dispatch is not in the module of phase flow"


def _number(content: bytes) -> int:
    return int.from_bytes(content, "little", signed=True)


def _not_run(count: int, execution: int | None) -> str | None:
    if count == 0:
        return "it is not executed in this call"
    if execution is not None and count < execution:
        times = "once" if count == 1 else f"{count} times"
        return f"it is executed {times} in this call; execution={execution} does not exist"
    return None


def with_fills(
    one: Capture, contents: Mapping[str, bytes], other: Mapping[str, bytes]
) -> tuple[Capture, dict[str, bytes]]:
    """Find the undefined elements of captured tensors: those that differ between two calls.

    `one` and `contents` are the results of `capture` for the first call. `other` has the contents of the second call.
    Memory that the program never wrote is filled with zeros in the first call, and with ones in the second.
    Tensors with undefined elements are marked in the `Capture` that is returned. The dict that is returned maps the
    `undefined_name` of each such tensor to the bytes of a mask, which marks the undefined elements. Tensors whose sizes
    differ between the calls are moved to `missing`."""
    tensors: list[Tensor] = []
    missing = list(one.missing)
    masks: dict[str, bytes] = {}
    for tensor in one.tensors:
        mine, second = contents[tensor.name], other.get(tensor.name, b"")
        if len(mine) != len(second):
            missing.append(Missing(tensor.site, tensor.value, "its size depends on undefined elements"))
        elif mine == second:
            tensors.append(tensor)
        else:
            tensors.append(msgspec.structs.replace(tensor, undefined=True))
            masks[tensors[-1].undefined_name] = _differing(mine, second, tensor.type)
    return msgspec.structs.replace(one, tensors=tuple(tensors), missing=tuple(missing)), masks


def _differing(one: bytes, other: bytes, spelling: str) -> bytes:
    import numpy as np

    sizes = work.sizes_of(f"tensor<{spelling}>") if "x" in spelling else ()
    # Elements narrower than a byte are packed: the mask then has a byte for each byte of the tensor.
    width = max(1, len(one) // max(1, math.prod(size or 0 for size in sizes or ())))
    first, second = (np.frombuffer(content, np.uint8) for content in (one, other))
    return bytes((first != second).reshape(-1, width).any(axis=1).astype(np.uint8))


def spelt(type_: str, sizes: Sequence[int]) -> str:
    """Return a type as IREE's tools spell it: `4x8xf32` for `tensor<4x?xf32>` with the dynamic size 8."""
    if not type_.startswith("tensor<") or not (known := work.sizes_of(type_)):
        return type_
    left = iter(sizes)
    element = type_[len("tensor<") : -1].split("x", len(known))[-1]
    return "x".join([*(str(next(left) if size is None else size) for size in known), element])


def capturer_argv(
    python: str, bindings: str, function: str, dispatches: Sequence[int], execution: int | None, fill: int
) -> tuple[str, ...]:
    """Return a command line that makes a module record the operands and results of `dispatches`.

    The command reads the module from the file `flow`. The changed module goes to the file `capturing`."""
    options = (
        f"--bindings={bindings}",
        "--input=flow",
        "--output=capturing",
        "--facts=capturing.json",
        f"--function={function}",
        f"--dispatches={','.join(map(str, dispatches))}",
        f"--fill={fill}",
        *((f"--execution={execution}",) if execution is not None else ()),
    )
    return (python, "-I", "-S", str(_SCRIPT), *options)
