"""Emit a module that calls another module with cold operands: operands that are not in a cache.

Each call uses the next of many copies of each cold operand. The text of the emitted module is the same for all
targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dispatchflow.mlir.functions import BUFFER_VIEW

MODULE = "dispatchflow_rotation"
FILE = "rotation.vmfb"
"""The file name of the compiled module that calls the measured function.

The file is in the directory where the benchmark tool runs."""

_ALIGNMENT = 64
_PART_OF_MEMORY = 4
"""All copies of the cold operands may take at most the machine's memory divided by this number."""


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of the measured function."""

    shape: tuple[int, ...] | None
    """The sizes of a tensor; None for a scalar."""
    element: str
    """The element type of a tensor, or the type of the scalar."""
    nbytes: int
    cold: bool
    """True if each call uses the next copy of the operand, so that the operand is not in a cache."""

    @property
    def type(self) -> str:
        return _number(self.element) if self.shape is None else BUFFER_VIEW

    @property
    def stride(self) -> int:
        """The distance in bytes from one copy of the operand to the next.

        It is the operand's size, rounded up to a multiple of 64."""
        return -(-max(self.nbytes, 1) // _ALIGNMENT) * _ALIGNMENT


def copies(operands: Sequence[Operand], cache_bytes: int) -> int:
    """Return how many copies of each cold operand are needed: at least 2.

    The copies of all cold operands together must be at least twice as large as the cache."""
    return max(2, -(-2 * cache_bytes // sum(operand.stride for operand in operands if operand.cold)))


@dataclass(frozen=True, slots=True)
class Rotation:
    """The measured function, whose cold operands are copied."""

    callee: str
    """The name of the module that contains the measured function."""
    function: str
    operands: tuple[Operand, ...]
    results: tuple[str, ...]
    """The declared MLIR types of the measured function's results."""
    count: int
    """The number of copies of each cold operand."""

    @property
    def nbytes(self) -> int:
        """The size of all copies of all cold operands, in bytes."""
        return self.count * sum(operand.stride for operand in self.operands if operand.cold)

    def is_too_large(self, memory_bytes: int) -> bool:
        """Return whether all copies of the cold operands take more than a quarter of the machine's memory."""
        return self.nbytes > memory_bytes // _PART_OF_MEMORY

    @property
    def declaration(self) -> str:
        """The types of the measured function's arguments and results, as MLIR text: `(%arg0: …) -> (…)`."""
        arguments = ", ".join(f"%arg{i}: {operand.type}" for i, operand in enumerate(self.operands))
        return f"({arguments}) -> ({self._gives})"

    @property
    def target(self) -> str:
        """The quoted symbol of the measured function, such as `@"module.matmul"`.

        The calling module imports the function under this symbol."""
        return symbol(f"{self.callee}.{self.function}")

    @property
    def call(self) -> str:
        """The MLIR ops that call the measured function and return its results."""
        given = ", ".join(f"%cold{i}" if operand.cold else f"%arg{i}" for i, operand in enumerate(self.operands))
        takes = ", ".join(operand.type for operand in self.operands)
        names = ", ".join(f"%result{index}" for index in range(len(self.results)))
        assigned, returned = (f"{names} = ", f"util.return {names} : {self._gives}") if names else ("", "util.return")
        return f"    {assigned}util.call {self.target}({given}) : ({takes}) -> ({self._gives})\n    {returned}\n"

    @property
    def _gives(self) -> str:
        return ", ".join(_number(result) if _is_number(result) else BUFFER_VIEW for result in self.results)


TURN = """\
    %this = util.global.load @next : index
    %after = arith.addi %this, %step : index
    %next = arith.remui %after, %count : index
    util.global.store %next, @next : index
"""
"""The MLIR ops that decide which copies of the operands a call uses.

They set `%this` to the index of these copies, and store the index for the next call. The function that contains these
ops must define `%step` as 1, and `%count` as the number of copies."""


def module(found: Rotation) -> str:
    """Return an MLIR module that calls the measured function with cold operands.

    The module's public function has the name of the measured function."""
    text = "".join(
        f"    %buffer{i} = hal.buffer_view.buffer<%arg{i} : {BUFFER_VIEW}> : !hal.buffer\n"
        + next_copy(i, operand, f"%buffer{i}")
        for i, operand in enumerate(found.operands)
        if operand.cold
    )
    return f"""\
module @{MODULE} {{
  util.func private {found.target}{found.declaration}
  util.global private mutable @next = 0 : index
  util.func public {symbol(found.function)}{found.declaration} {{
    %step = arith.constant 1 : index
    %count = arith.constant {found.count} : index
    %encoding = hal.encoding_type<dense_row_major> : i32
{TURN}{text}{found.call}\
  }}
}}
"""


def next_copy(index: int, operand: Operand, buffer: str) -> str:
    """Return MLIR ops that define `%cold{index}`: a view of one copy of operand number `index`.

    The SSA value `buffer` contains all copies. The function that contains the ops must define `%this` as
    the number of the copy, and `%encoding` as the encoding of the view."""
    sizes = operand.shape or ()
    constants = "".join(f"    %size{index}_{axis} = arith.constant {size} : index\n" for axis, size in enumerate(sizes))
    shape = ", ".join(f"%size{index}_{axis}" for axis in range(len(sizes)))
    return f"""\
{constants}\
    %stride{index} = arith.constant {operand.stride} : index
    %bytes{index} = arith.constant {operand.nbytes} : index
    %type{index} = hal.element_type<{operand.element}> : i32
    %offset{index} = arith.muli %this, %stride{index} : index
    %cold{index} = hal.buffer_view.create buffer({buffer} : !hal.buffer)[%offset{index}, %bytes{index}] \
shape([{shape}]) type(%type{index}) encoding(%encoding) : {BUFFER_VIEW}
"""


def symbol(name: str) -> str:
    """Return a quoted reference to the symbol `name`."""
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'@"{escaped}"'


def _is_number(type: str) -> bool:
    return type in ("i1", "i8", "i16", "i32", "i64", "f32", "f64", "index")


def _number(type: str) -> str:
    """Return the type in which IREE's runtime passes a scalar of the MLIR type `type`."""
    return {"index": "i64", "i1": "i32", "i8": "i32", "i16": "i32"}.get(type, type)
