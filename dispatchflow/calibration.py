"""Modules whose only work is arithmetic or memory traffic: what this machine can do at most, measured and not typed in.

A rate above the ceiling cannot be true, and is called `suspect`. Compiled for llvm-cpu and run with the same
runtime, threads and CPUs as the cases; the fastest block ever seen counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dispatchflow.types import ElementType, Signature, TensorType

MARGIN = 1.1
"""A rate is suspect above ceiling × this: clocks move by some percent between two processes."""

# Wide dot products run above the rate of f32 multiply-adds; where the CPU has them, f32's ceiling is none.
_WIDE = {
    ElementType.BF16: ("avx512_bf16", "amx_bf16", "avx512_fp16"),
    ElementType.F16: ("avx512_fp16", "amx_fp16"),
}


_CACHED = (2**17, 2**16, 2**18)
"""Elements of f32 or i32; the first alone unless something is suspect. A smaller set lies nearer, in a larger one the
launch counts less."""
_PART_OF_MEMORY = 8
READ = "_read"


@dataclass(frozen=True, slots=True)
class Kernel:
    """`work` is what one call does: flops, or bytes moved. `spare`: measured only when a rate is suspect."""

    name: str
    kind: str
    module: str
    input: TensorType
    work: int
    spare: bool = False


def kernels(cpu_flags: str, cache_bytes: int | None, memory_bytes: int) -> tuple[Kernel, ...]:
    """Registers only, f32 and f64; reading and writing, and reading alone, sets that stay in the caches; and, where
    that is affordable, of twice the last cache."""
    register_bytes = 64 if "avx512f" in cpu_flags.split() else 32
    found = [_compute(ElementType.F32, register_bytes * 2), _compute(ElementType.F64, register_bytes)]
    for size in _CACHED:
        found += [_copying("cache", size, size != _CACHED[0]), _reading("cache", size, size != _CACHED[0])]
    if cache_bytes is not None and 2 * cache_bytes <= memory_bytes // _PART_OF_MEMORY:
        found += [_copying("memory", cache_bytes // 4), _reading("memory", cache_bytes // 2)]
    return tuple(found)


def compute_kind(signature: Signature, cpu_flags: str) -> str | None:
    """Which compute ceiling bounds these types; None where none that we measure does (integers, wide dot products)."""
    if signature.accumulator is ElementType.F64:
        return "f64"
    if not signature.accumulator.is_float:
        return None
    wide = {flag for element in signature.operands for flag in _WIDE.get(element, ())}
    return None if wide & set(cpu_flags.split()) else "f32"


def traffic_kind(working_set_bytes: int, cache_bytes: int | None) -> str:
    """`cache` while the working set can stay in the last-level cache, else `memory`."""
    return "memory" if cache_bytes is not None and working_set_bytes > 2 * cache_bytes else "cache"


def _compute(element: ElementType, vector: int) -> Kernel:
    """A chain of multiply-adds on every element. `vector` elements at once are eight registers: eight independent
    chains hide a latency of four cycles of two units (92 GFLOP/s of f32 where sixteen registers reached 58, Zen 3)."""
    steps, size = 128, 2**20
    chain = "\n".join(f"      %x{i + 1} = math.fma %x{i}, %p, %q : {element.mlir} loc(unknown)" for i in range(steps))
    config = f"distribution = [8192], vector_common_parallel = [{vector}]"
    prelude = f"""\
#config = #iree_cpu.lowering_config<{config}>
#translation = #iree_codegen.translation_info<pipeline = #iree_cpu.pipeline<DoubleTilingExpert>>
#compilation = #iree_codegen.compilation_info<lowering_config = #config, translation_info = #translation>
"""
    constants = f"""\
    %p = arith.constant 0.999 : {element.mlir} loc(unknown)
    %q = arith.constant 0.001 : {element.mlir} loc(unknown)
"""
    tensor = TensorType((size,), element)
    module = _elementwise(tensor, prelude, constants, ", compilation_info = #compilation", chain, f"%x{steps}")
    return Kernel(f"multiply_add_{element.mlir}_{vector}", element.mlir, module, tensor, 2 * steps * size)


def _copying(level: str, size: int, spare: bool = False) -> Kernel:
    tensor = TensorType((size,), ElementType.F32)
    body = "      %y = arith.addf %x0, %x0 : f32 loc(unknown)"
    module = _elementwise(tensor, "", "", "", body, "%y")
    return Kernel(f"read_write_{level}_{size}", level, module, tensor, 2 * tensor.nbytes, spare)


def _reading(level: str, size: int, spare: bool = False) -> Kernel:
    """Sums of rows, of integers: an addition of floats takes longer than the load."""
    tensor, sums = TensorType((size // 1024, 1024), ElementType.I32), TensorType((size // 1024,), ElementType.I32)
    x, y = tensor.mlir, sums.mlir
    maps, iterators = "[affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m)>]", '["parallel", "reduction"]'
    module = f"""\
module @calibration {{
  func.func @main(%arg0: {x} loc(unknown)) -> {y} {{
    %zero = arith.constant 0 : i32 loc(unknown)
    %empty = tensor.empty() : {y} loc(unknown)
    %init = linalg.fill ins(%zero : i32) outs(%empty : {y}) -> {y} loc(unknown)
    %out = linalg.generic {{indexing_maps = {maps}, iterator_types = {iterators}}} ins(%arg0 : {x}) outs(%init : {y}) {{
    ^bb0(%x0: i32 loc(unknown), %so_far: i32 loc(unknown)):
      %next = arith.addi %so_far, %x0 : i32 loc(unknown)
      linalg.yield %next : i32 loc(unknown)
    }} -> {y} loc(unknown)
    return %out : {y} loc(unknown)
  }} loc(unknown)
}} loc(unknown)
"""
    return Kernel(f"read_{level}_{size}", level + READ, module, tensor, tensor.nbytes, spare)


def _elementwise(tensor: TensorType, prelude: str, constants: str, attribute: str, body: str, result: str) -> str:
    t, e, identity = tensor.mlir, tensor.element.mlir, "affine_map<(i) -> (i)>"
    return f"""\
{prelude}module @calibration {{
  func.func @main(%arg0: {t} loc(unknown)) -> {t} {{
{constants}    %empty = tensor.empty() : {t} loc(unknown)
    %out = linalg.generic {{indexing_maps = [{identity}, {identity}], iterator_types = ["parallel"]{attribute}}} \
ins(%arg0 : {t}) outs(%empty : {t}) {{
    ^bb0(%x0: {e} loc(unknown), %unused: {e} loc(unknown)):
{body}
      linalg.yield {result} : {e} loc(unknown)
    }} -> {t} loc(unknown)
    return %out : {t} loc(unknown)
  }} loc(unknown)
}} loc(unknown)
"""


@dataclass(frozen=True, slots=True)
class Work:
    """What bounds a call: element types, bytes moved, those of them that are read, and whether they are read from
    memory although the caches would hold them."""

    signature: Signature
    traffic_bytes: int
    read_bytes: int
    cold: bool = False

    def kinds(self, cpu_flags: str, cache_bytes: int | None) -> tuple[str, ...]:
        """The kinds of kernels whose rates are its ceilings."""
        compute = compute_kind(self.signature, cpu_flags)
        level = "memory" if self.cold else traffic_kind(self.traffic_bytes, cache_bytes)
        return (*([compute] if compute else []), level, level + READ)


def ceilings(
    rates: Mapping[str, float], work: Work, cpu_flags: str, cache_bytes: int | None
) -> tuple[float | None, float | None]:
    """(flops per s, bytes per s) that nothing that does this work can exceed; None where unknown.

    Of reading alone and reading and writing the faster stands: no mixture of the two is faster than both. What is cold
    reads its inputs from memory, and may write into a cache.
    """
    *compute, level, reading = work.kinds(cpu_flags, cache_bytes)
    flops = rates.get(compute[0]) if compute else None
    if work.cold:
        read = rates.get(reading)
        return flops, None if read is None else read * work.traffic_bytes / work.read_bytes
    # A cache is never slower than the memory behind it.
    kinds = (level, reading, "memory", "memory" + READ)
    return flops, max((rates[kind] for kind in kinds if kind in rates and {level, reading} & set(rates)), default=None)
