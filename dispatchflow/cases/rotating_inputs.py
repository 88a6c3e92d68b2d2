"""Emit the second module of `cache=cold`, which calls the measured one with copies of its inputs.

The timed vmfb is the verified one: the second module imports its function. At its first call, during the warm-up, the
second module copies the inputs until the copies fill twice the last-level cache; then each call uses the next copy.
"""

from __future__ import annotations

from dispatchflow import units
from dispatchflow.iree.targets import LOCAL, Target
from dispatchflow.mlir.types import TensorType
from dispatchflow.operations import Operation
from dispatchflow.workload import ENTRY, Workload

HOT, COLD = "hot", "cold"
CACHES = (HOT, COLD)

FILE = "rotation.vmfb"
"""The module's name in the directory where it runs."""

VERSION = 1
"""Increase this when the behaviour of a cold call changes."""

_ALIGNMENT = 64
_PART_OF_MEMORY = 4


def sets(operation: Operation, cache_bytes: int) -> int:
    """Return the number of copies of the inputs that fill twice the cache; at least two."""
    return max(2, -(-2 * cache_bytes // _stride_sum(operation)))


def not_coldable(program: Workload, target: Target, cache_bytes: int | None, memory_bytes: int) -> str | None:
    """Return why the inputs cannot be rotated here, as the reason of a skip; None if they can."""
    if not isinstance(program, Operation):
        return "not coldable: only the inputs of operations are rotated, not those of a user's module"
    if target.driver != LOCAL:
        return f"not coldable: the size of the last cache of {target.driver} devices is not known"
    if cache_bytes is None:
        return "not coldable: the system does not report the size of the last-level cache"
    needed = sets(program, cache_bytes) * _stride_sum(program)
    if needed > memory_bytes // _PART_OF_MEMORY:
        found = f"the last-level cache is {units.size(cache_bytes)}, and this machine has {units.size(memory_bytes)}"
        return f"not coldable: {units.size(needed)} of input copies are over a quarter of the memory ({found})"
    return None


def _stride(tensor: TensorType) -> int:
    return -(-max(tensor.nbytes, 1) // _ALIGNMENT) * _ALIGNMENT


def _stride_sum(operation: Operation) -> int:
    return sum(_stride(operand.type) for operand in operation.operands())


def module(operation: Operation, count: int) -> str:
    """Emit a module whose function has the operation's arguments and result.

    The copies are selected inside the branch and not loaded after it: the compiler would move the load of a global
    before the branch that stores to it (IREE 3.13).
    """
    tensors = [operand.type.passed for operand in operation.operands()]
    indices = range(len(tensors))

    def joined(text: str) -> str:
        return ", ".join(text.format(i=i) for i in indices)

    views, buffers = joined("!hal.buffer_view"), joined("!hal.buffer")
    repeated = "".join(_repeated(i, tensor, count) for i, tensor in enumerate(tensors))
    text = f"""\
module @rotation {{
  util.func private @dispatch.{ENTRY}({joined("%x{i}: !hal.buffer_view")}) -> !hal.buffer_view
  util.global private mutable @next = 0 : index
  util.global private mutable @ready = 0 : i32
{"".join(f"  util.global private mutable @copies{i} : !hal.buffer" + chr(10) for i in indices)}{repeated}\
  util.func public @{ENTRY}({joined("%arg{i}: !hal.buffer_view")}) -> !hal.buffer_view {{
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %step = arith.constant 1 : index
    %count = arith.constant {count} : index
    %encoding = hal.encoding_type<dense_row_major> : i32
    %ready = util.global.load @ready : i32
    %first = arith.cmpi eq, %ready, %zero : i32
    %copies:{len(tensors)} = scf.if %first -> ({buffers}) {{
      util.global.store %one, @ready : i32
"""
    for i in indices:
        text += f"""\
      %made{i} = util.call @repeated{i}(%arg{i}) : (!hal.buffer_view) -> !hal.buffer
      util.global.store %made{i}, @copies{i} : !hal.buffer
"""
    text += f"      scf.yield {joined('%made{i}')} : {buffers}\n    }} else {{\n"
    text += "".join(f"      %kept{i} = util.global.load @copies{i} : !hal.buffer\n" for i in indices)
    text += f"""\
      scf.yield {joined("%kept{i}")} : {buffers}
    }}
    %this = util.global.load @next : index
    %after = arith.addi %this, %step : index
    %next = arith.remui %after, %count : index
    util.global.store %next, @next : index
"""
    for i, tensor in enumerate(tensors):
        sizes = ", ".join(f"%size{i}_{axis}" for axis in range(len(tensor.shape)))
        for axis, size in enumerate(tensor.shape):
            text += f"    %size{i}_{axis} = arith.constant {size} : index\n"
        text += f"""\
    %stride{i} = arith.constant {_stride(tensor)} : index
    %bytes{i} = arith.constant {tensor.nbytes} : index
    %type{i} = hal.element_type<{tensor.element.mlir}> : i32
    %offset{i} = arith.muli %this, %stride{i} : index
    %x{i} = hal.buffer_view.create buffer(%copies#{i} : !hal.buffer)[%offset{i}, %bytes{i}] \
shape([{sizes}]) type(%type{i}) encoding(%encoding) : !hal.buffer_view
"""
    return f"""\
{text}\
    %result = util.call @dispatch.{ENTRY}({joined("%x{i}")}) : ({views}) -> !hal.buffer_view
    util.return %result : !hal.buffer_view
  }}
}}
"""


def _repeated(index: int, tensor: TensorType, count: int) -> str:
    """Emit a function from an input to a buffer with `count` aligned copies of its bytes."""
    size, stride = max(tensor.nbytes, 1), _stride(tensor)
    padded = f"""\
    %padding = arith.constant 0 : i8
    %x = tensor.pad %bytes low[0] high[{stride - size}] {{
    ^bb0(%i: index):
      tensor.yield %padding : i8
    }} : tensor<{size}xi8> to tensor<{stride}xi8>
"""
    name, pad = ("x", padded) if stride > size else ("bytes", "")
    return f"""\
  util.func private @repeated{index}(%view: !hal.buffer_view) -> !hal.buffer {{
    %begin = arith.constant 0 : index
    %size = arith.constant {size} : index
    %type = hal.element_type<i8> : i32
    %encoding = hal.encoding_type<dense_row_major> : i32
    %buffer = hal.buffer_view.buffer<%view : !hal.buffer_view> : !hal.buffer
    %raw = hal.buffer_view.create buffer(%buffer : !hal.buffer)[%begin, %size] shape([%size]) type(%type) \
encoding(%encoding) : !hal.buffer_view
    %bytes = hal.tensor.import %raw : !hal.buffer_view -> tensor<{size}xi8>
{pad}\
    %empty = tensor.empty() : tensor<{count}x{stride}xi8>
    %all = linalg.broadcast ins(%{name} : tensor<{stride}xi8>) outs(%empty : tensor<{count}x{stride}xi8>) \
dimensions = [0]
    %copies = hal.tensor.export %all : tensor<{count}x{stride}xi8> -> !hal.buffer
    util.return %copies : !hal.buffer
  }}
"""
