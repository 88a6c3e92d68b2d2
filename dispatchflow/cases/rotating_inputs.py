"""Emit an MLIR module that calls the measured module with inputs that are not in a cache.

The emitted module is used for `cache=cold`. The first call copies the inputs until the copies are twice as
large as the last-level cache. Each later call uses the next copy."""

from __future__ import annotations

from collections.abc import Sequence

from dispatchflow import units
from dispatchflow.cases.module import is_scalar, nbytes_of, shape_of
from dispatchflow.iree import rotation
from dispatchflow.iree.rotation import Operand, Rotation
from dispatchflow.iree.targets import LOCAL, Target
from dispatchflow.mlir.functions import Declaration
from dispatchflow.operations import Operation
from dispatchflow.workload import ENTRY, Workload

HOT, COLD = "hot", "cold"
CACHES = (HOT, COLD)

VERSION = 1
"""A number in the keys of all measurements with `cache=cold`.

Raise it when the emitted module behaves differently."""

_ASYNCHRONOUS = "--iree-execution-model=async-external"


def of_operation(operation: Operation, cache_bytes: int) -> Rotation:
    """Return the `Rotation` of an operation: the called function, and the number of copies of its inputs.

    `cache_bytes` is the size of the last-level cache."""
    tensors = [operand.type.passed for operand in operation.operands()]
    operands = tuple([Operand(tensor.shape, tensor.element.mlir, tensor.nbytes, True) for tensor in tensors])
    result = operation.result().passed.spelling
    return Rotation("dispatch", ENTRY, operands, (result,), rotation.copies(operands, cache_bytes))


def of_module(
    name: str, function: str, declared: Declaration, arguments: Sequence[str], cache_bytes: int
) -> Rotation | None:
    """Describe the copies of a user module's inputs for a measurement with a cold cache.

    Returns None if no input can be copied.

    Args:
        declared: the types in the function's signature, such as `?x8xf32`.
        arguments: the types of the inputs at run time, such as `4x8xf32`.
        cache_bytes: the size of the last-level cache."""
    operands = tuple(map(_operand, declared.inputs, arguments))
    if not any(operand.cold for operand in operands):
        return None
    return Rotation(name, function, operands, declared.results, rotation.copies(operands, cache_bytes))


def _operand(declared: str, argument: str) -> Operand:
    if is_scalar(declared):
        return Operand(None, declared, 0, False)
    nbytes, known = nbytes_of(argument), shape_of(argument)
    if known is None or not nbytes:
        return Operand((), "i8", 0, False)
    return Operand(tuple(size or 0 for size in known[0]), known[1].mlir, nbytes, True)


def not_coldable(
    program: Workload, library: str | None, target: Target, cache_bytes: int | None, memory_bytes: int
) -> str | None:
    """Return why a case cannot be measured with `cache=cold` on this machine; None if it can.

    The inputs of a user's module are checked later, by `module_problem`, because their sizes are unknown until the
    stage `emit` has read the module."""
    if target.driver != LOCAL:
        return f"not coldable: the size of the last cache of {target.driver} devices is not known"
    if cache_bytes is None:
        return "not coldable: the system does not report the size of the last-level cache"
    if not isinstance(program, Operation):
        return None if library is None else f"not coldable: {library} takes the same inputs in each call of a model"
    return too_large(of_operation(program, cache_bytes), memory_bytes)


def module_problem(found: Rotation | None, stored: Sequence[str], flags: Sequence[str]) -> str | None:
    """Return why a user's module cannot be measured with `cache=cold`; None if it can.

    `found` is the result of `of_module`. `stored` has the names of the global variables that the module's
    functions write. `flags` are the compiler flags."""
    if found is None:
        return "not coldable: no input is a tensor with a known size in bytes"
    if "." in found.callee:
        return f"not coldable: the module's name, {found.callee}, has a dot, so that no other module can import from it"
    if stored:
        return (
            f"not coldable: the module stores to @{', @'.join(stored)}, so its calls differ in more than their inputs"
        )
    if _ASYNCHRONOUS in flags:
        return f"not coldable: with {_ASYNCHRONOUS}, the function takes fences"
    return None


def too_large(found: Rotation, memory_bytes: int) -> str | None:
    """Return an error message if the copies of the inputs take more than a quarter of this machine's RAM."""
    if not found.is_too_large(memory_bytes):
        return None
    copies = f"{units.size(found.nbytes)} of input copies, to fill twice the last-level cache"
    return f"not coldable: {copies}, are over a quarter of the memory ({units.size(memory_bytes)})"


def module(found: Rotation) -> str:
    """Emit a module with a wrapper that has the measured function's name, arguments and results."""
    # Each side of the branch yields the copies. One load after the branch would not work: the compiler would move the
    # load before the branch (IREE 3.13).
    operands = found.operands
    cold = [i for i, operand in enumerate(operands) if operand.cold]

    def joined(text: str) -> str:
        return ", ".join(text.format(i=i) for i in cold)

    buffers = joined("!hal.buffer")
    globals_ = "".join(f"  util.global private mutable @copies{i} : !hal.buffer\n" for i in cold)
    text = f"""\
module @rotation {{
  util.func private {found.target}{found.declaration}
  util.global private mutable @next = 0 : index
  util.global private mutable @ready = 0 : i32
{globals_}{"".join(_repeated(i, operands[i], found.count) for i in cold)}\
  util.func public {rotation.symbol(found.function)}{found.declaration} {{
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %step = arith.constant 1 : index
    %count = arith.constant {found.count} : index
    %encoding = hal.encoding_type<dense_row_major> : i32
    %ready = util.global.load @ready : i32
    %first = arith.cmpi eq, %ready, %zero : i32
    %copies:{len(cold)} = scf.if %first -> ({buffers}) {{
      util.global.store %one, @ready : i32
"""
    for i in cold:
        text += f"""\
      %made{i} = util.call @repeated{i}(%arg{i}) : (!hal.buffer_view) -> !hal.buffer
      util.global.store %made{i}, @copies{i} : !hal.buffer
"""
    text += f"      scf.yield {joined('%made{i}')} : {buffers}\n    }} else {{\n"
    text += "".join(f"      %kept{i} = util.global.load @copies{i} : !hal.buffer\n" for i in cold)
    text += f"      scf.yield {joined('%kept{i}')} : {buffers}\n    }}\n{rotation.TURN}"
    text += "".join(rotation.next_copy(i, operands[i], f"%copies#{place}") for place, i in enumerate(cold))
    return f"{text}{found.call}  }}\n}}\n"


def _repeated(index: int, operand: Operand, count: int) -> str:
    """Emit a function that takes an input and returns a buffer with `count` aligned copies of its bytes."""
    size, stride = max(operand.nbytes, 1), operand.stride
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
