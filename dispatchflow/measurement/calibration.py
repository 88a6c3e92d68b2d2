"""Emit the calibration kernels: modules that only compute or only move data.

Their highest rates, in flops and bytes per second, are a device's ceilings. A case whose rate is clearly above a
ceiling is called `suspect`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dispatchflow.iree.targets import Target
from dispatchflow.mlir.types import ElementType, Signature, TensorType

MARGIN = 1.1
"""The tolerance for a case's rate above a ceiling: a rate above ceiling × `MARGIN` is suspect.

A ceiling is the highest rate that was measured on the device. A tolerance is needed, because clock rates differ by some
percent between processes."""

# Type → the CPU features that have wide dot products of it. Their rates exceed the ceiling of f32 multiply-adds.
_WIDE = {
    ElementType.BF16: ("avx512_bf16", "amx_bf16", "avx512_fp16"),
    ElementType.F16: ("avx512_fp16", "amx_fp16"),
}


_CACHED = (2**17, 2**16, 2**18)
"""The sizes of arrays that stay in a CPU's caches, in elements of 4 bytes.

Calibration kernels always use the first size. They use the other sizes only if a case's rate is suspect."""
ENOUGH_NS = 2e7
"""If a call takes longer than this time in ns, its launch overhead is negligible."""
_GPU_SIZES = (2**17, 2**20, 2**24)
"""The sizes of the arrays on which a GPU computes multiply-adds, in elements.

One size does not suit all devices, because their speeds differ by a factor of 10⁵. On a fast device, the launch
overhead of a small size is not negligible. A large size takes too long on a slow device, such as lavapipe (Vulkan on a
CPU)."""
_GPU_CACHED = (2**22, 2**20, 2**24)
_GPU_CACHE_BYTES = 2**28
"""The largest last-level cache of a GPU in 2025 (AMD MI300X). Drivers do not report the size."""
_PART_OF_MEMORY = 8
READ = "_read"


@dataclass(frozen=True, slots=True)
class Kernel:
    """A module that is run to measure one ceiling (highest rate) of a device."""

    name: str
    kind: str
    """The ceiling that is measured: `f32`, `f64`, `cache`, `cache_read`, `memory` or `memory_read`."""
    module: str
    """The MLIR text of the module."""
    input: TensorType
    work: int
    """The flops of one call, or the bytes that one call moves."""
    spare: bool = False
    """True if the kernel is measured only when a case's rate is suspect (clearly above the ceiling)."""
    growth: int = 0
    """The number of smaller kernels of the same kind. The smaller kernels are measured first.

    If a call of a smaller kernel takes more than `ENOUGH_NS`, this kernel is skipped."""


@dataclass(frozen=True, slots=True)
class Processor:
    """The properties of a CPU or GPU that decide which kernels measure its ceilings (highest rates)."""

    register_bytes: int | None
    """The size of a vector register. None if each lane is a thread, as on a GPU."""
    faster: frozenset[ElementType]
    """The operand types for which the processor may have faster instructions than multiply-adds.

    The calibration kernels use multiply-adds, so their rates are no ceilings for these types."""
    cache_bytes: int | None
    """The size of the last-level cache. None if unknown."""


def processor(target: Target, cpu_flags: str, cache_bytes: int | None) -> Processor:
    """Return the properties of the processor that runs the target's code.

    `cpu_flags` and `cache_bytes` are the feature flags and the last-level cache of this machine's CPU. They are ignored
    if the target is a GPU."""
    if target.has_threads:
        flags = set(cpu_flags.split())
        wide = frozenset(element for element, names in _WIDE.items() if flags.intersection(names))
        return Processor(64 if "avx512f" in flags else 32, wide, cache_bytes)
    of_matrix = {mma.rpartition("_")[2].lower() for mma in target.gpu.mma} if target.gpu else set()
    simple = {element for element in (ElementType.F32, ElementType.F64) if element.mlir not in of_matrix}
    return Processor(None, frozenset(ElementType) - simple, _GPU_CACHE_BYTES)


def kernels(processor: Processor, memory_bytes: int) -> tuple[Kernel, ...]:
    """Return the calibration kernels for a processor: some compute, the others read or copy arrays.

    `memory_bytes` is the size of this machine's memory."""
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


def compute_kind(signature: Signature | None, processor: Processor) -> str | None:
    """Return the kind of kernel that measures the highest flop rate for given types: `f32` or `f64`.

    Returns None if no kernel measures this rate, for example for integers."""
    if signature is None or not signature.accumulator.is_float or processor.faster.intersection(signature.operands):
        return None
    return "f64" if signature.accumulator is ElementType.F64 else "f32"


def traffic_kind(working_set_bytes: int, cache_bytes: int | None) -> str:
    """Return the level of memory whose speed limits the data traffic of a call: `memory` or `cache`.

    The result is `memory` if the working set is larger than twice the last-level cache, otherwise `cache`."""
    return "memory" if cache_bytes is not None and working_set_bytes > 2 * cache_bytes else "cache"


def _compute(element: ElementType, vector: int) -> Kernel:
    """Return a kernel for CPUs that applies a chain of multiply-adds to every element of an array."""
    # `vector` elements fill eight registers, whose chains are independent: eight chains keep two units with a latency
    # of four cycles busy. On Zen 3, eight registers reached 92 GFLOP/s of f32, and sixteen reached 58.
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
    """Return a kernel for GPUs that applies eight chains of multiply-adds to every element of an array.

    `_GPU_SIZES[growth]` is the number of elements."""
    # Lanes are threads here, and the chains give each thread enough independent work.
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
    """Return a kernel that reads an array and writes an array of the same size."""
    tensor = TensorType((size,), ElementType.F32)
    body = "      %y = arith.addf %x0, %x0 : f32 loc(unknown)"
    module = _elementwise(tensor, "", "", "", body, "%y")
    return Kernel(f"read_write_{level}_{size}", level, module, tensor, 2 * tensor.nbytes, spare)


def _reading(level: str, size: int, spare: bool = False) -> Kernel:
    """Return a kernel that sums the rows of an array of integers."""
    # Adding floats would take longer than loading them.
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
    """The element types and the memory traffic of one call, which determine how high its rates can be."""

    signature: Signature | None
    """The element types. None if there is no arithmetic, or if no calibration kernel measures these types."""
    traffic_bytes: int
    read_bytes: int
    """The part of `traffic_bytes` that is read. It is used only if `cold` is true."""
    cold: bool = False
    """True if the inputs are read from memory even if they are small enough for the caches."""

    def kinds(self, processor: Processor) -> tuple[str, ...]:
        """Return the kinds of calibration kernels, such as `f32` and `memory`, whose rates limit this work."""
        compute = compute_kind(self.signature, processor)
        level = "memory" if self.cold else traffic_kind(self.traffic_bytes, processor.cache_bytes)
        return (*([compute] if compute else []), level, level + READ)


def ceilings(rates: Mapping[str, float], work: Work, processor: Processor) -> tuple[float | None, float | None]:
    """Return the rates that this work cannot exceed: (flops per s, bytes per s). An unknown rate is None.

    `rates` is a dict from each kind of calibration kernel to the highest rate that was measured with it."""
    # No mixture of reads and writes is faster than the faster of two kernels: one that reads, and one that reads and
    # writes. Cold work reads its inputs from memory, but may write into a cache. Therefore only its reads are limited.
    *compute, level, reading = work.kinds(processor)
    flops = rates.get(compute[0]) if compute else None
    if work.cold:
        read = rates.get(reading)
        return flops, None if read is None or not work.read_bytes else read * work.traffic_bytes / work.read_bytes
    # A cache is never slower than the memory behind it.
    kinds = (level, reading, "memory", "memory" + READ)
    return flops, max((rates[kind] for kind in kinds if kind in rates and {level, reading} & set(rates)), default=None)
