"""Modules whose only work is arithmetic or memory traffic: what a device can do at most, measured and not typed in.

A rate above the ceiling cannot be true, and is called `suspect`. Compiled for llvm-cpu, or for the target of a GPU, and
run with the same runtime, threads and CPUs as the cases; the fastest block ever seen counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dispatchflow.iree.targets import Target
from dispatchflow.mlir.types import ElementType, Signature, TensorType

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
ENOUGH_NS = 2e7
"""Beside a call that takes so long its launch counts no more."""
_GPU_SIZES = (2**17, 2**20, 2**24)
"""Of multiply-adds: from a software rasterizer to a large GPU are five orders of magnitude."""
_GPU_CACHED = (2**22, 2**20, 2**24)
_GPU_CACHE_BYTES = 2**28
"""No GPU of 2025 has a larger last cache (AMD MI300X: 256 MiB); what they have, drivers do not tell."""
_PART_OF_MEMORY = 8
READ = "_read"


@dataclass(frozen=True, slots=True)
class Kernel:
    """`work` is what one call does: flops, or bytes moved. `spare`: measured only when a rate is suspect. `growth`: how
    many smaller ones of its kind there are, each of which may take long enough."""

    name: str
    kind: str
    module: str
    input: TensorType
    work: int
    spare: bool = False
    growth: int = 0


@dataclass(frozen=True, slots=True)
class Processor:
    """A CPU, or a GPU as one target's code uses it. `register_bytes`: of a vector; None where each lane is a thread."""

    register_bytes: int | None
    faster: frozenset[ElementType]
    """Operands whose products may run above the rate of the multiply-adds that are measured."""
    cache_bytes: int | None
    """Working sets of twice that much are in memory."""


def processor(target: Target, cpu_flags: str, cache_bytes: int | None) -> Processor:
    """`cpu_flags`, `cache_bytes`: this machine's."""
    if target.has_threads:
        flags = set(cpu_flags.split())
        wide = frozenset(element for element, names in _WIDE.items() if flags.intersection(names))
        return Processor(64 if "avx512f" in flags else 32, wide, cache_bytes)
    of_matrix = {mma.rpartition("_")[2].lower() for mma in target.gpu.mma} if target.gpu else set()
    simple = {element for element in (ElementType.F32, ElementType.F64) if element.mlir not in of_matrix}
    return Processor(None, frozenset(ElementType) - simple, _GPU_CACHE_BYTES)


def kernels(processor: Processor, memory_bytes: int) -> tuple[Kernel, ...]:
    """Registers only, f32 and f64; reading and writing, and reading alone, sets that stay in the caches; and, where
    that is affordable, of twice the last cache."""
    if (register := processor.register_bytes) is not None:
        found, sizes = [_compute(ElementType.F32, register * 2), _compute(ElementType.F64, register)], _CACHED
    else:
        elements, sizes = (ElementType.F32, ElementType.F64), _GPU_CACHED
        found = [_independent(element, growth) for element in elements for growth in range(len(_GPU_SIZES))]
    for size in sizes:
        found += [_copying("cache", size, size != sizes[0]), _reading("cache", size, size != sizes[0])]
    if (cache := processor.cache_bytes) is not None and 2 * cache <= memory_bytes // _PART_OF_MEMORY:
        found += [_copying("memory", cache // 4), _reading("memory", cache // 2)]
    return tuple(found)


def compute_kind(signature: Signature, processor: Processor) -> str | None:
    """Which compute ceiling bounds these types; None where none that we measure does (integers, wide dot products)."""
    if not signature.accumulator.is_float or processor.faster.intersection(signature.operands):
        return None
    return "f64" if signature.accumulator is ElementType.F64 else "f32"


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


def _independent(element: ElementType, growth: int) -> Kernel:
    """Eight chains of multiply-adds on every element, for processors whose lanes are threads: one thread has enough to
    do at once."""
    chains, steps, size = 8, 64, _GPU_SIZES[growth]
    lines = []
    for c in range(chains):
        lines.append(f"      %x{c}_0 = arith.addf %x0, %c{c} : {element.mlir} loc(unknown)")
        lines += [
            f"      %x{c}_{i + 1} = math.fma %x{c}_{i}, %p, %q : {element.mlir} loc(unknown)" for i in range(steps)
        ]
    lines.append(f"      %s0 = arith.addf %x0_{steps}, %q : {element.mlir} loc(unknown)")
    for c in range(1, chains):
        lines.append(f"      %s{c} = arith.addf %s{c - 1}, %x{c}_{steps} : {element.mlir} loc(unknown)")
    values = {"p": 0.999, "q": 0.001, **{f"c{c}": 0.125 * c for c in range(chains)}}
    constants = "".join(f"    %{n} = arith.constant {v} : {element.mlir} loc(unknown)\n" for n, v in values.items())
    tensor = TensorType((size,), element)
    module = _elementwise(tensor, "", constants, "", "\n".join(lines), f"%s{chains - 1}")
    work = 2 * chains * steps * size
    return Kernel(f"multiply_add_{element.mlir}_{size}", element.mlir, module, tensor, work, growth=growth)


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

    def kinds(self, processor: Processor) -> tuple[str, ...]:
        """The kinds of kernels whose rates are its ceilings."""
        compute = compute_kind(self.signature, processor)
        level = "memory" if self.cold else traffic_kind(self.traffic_bytes, processor.cache_bytes)
        return (*([compute] if compute else []), level, level + READ)


def ceilings(rates: Mapping[str, float], work: Work, processor: Processor) -> tuple[float | None, float | None]:
    """(flops per s, bytes per s) that nothing that does this work can exceed; None where unknown.

    Of reading alone and reading and writing the faster stands: no mixture of the two is faster than both. What is cold
    reads its inputs from memory, and may write into a cache.
    """
    *compute, level, reading = work.kinds(processor)
    flops = rates.get(compute[0]) if compute else None
    if work.cold:
        read = rates.get(reading)
        return flops, None if read is None or not work.read_bytes else read * work.traffic_bytes / work.read_bytes
    # A cache is never slower than the memory behind it.
    kinds = (level, reading, "memory", "memory" + READ)
    return flops, max((rates[kind] for kind in kinds if kind in rates and {level, reading} & set(rates)), default=None)
