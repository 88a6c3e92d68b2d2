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


@dataclass(frozen=True, slots=True)
class Kernel:
    """`work` is what one call does: flops, or bytes moved."""

    name: str
    kind: str
    module: str
    input: TensorType
    work: int


def kernels(cpu_flags: str, cache_bytes: int | None) -> tuple[Kernel, ...]:
    """Registers only, f32 and f64; a set that stays in the caches; and, where that is affordable, one of twice the
    last cache (input and output as large as it each)."""
    register_bytes = 64 if "avx512f" in cpu_flags.split() else 32
    found = [_compute(ElementType.F32, register_bytes * 2), _compute(ElementType.F64, register_bytes)]
    found.append(_traffic("cache", 2**16))
    if cache_bytes is not None and cache_bytes <= 2**26:
        found.append(_traffic("memory", cache_bytes // 4))
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


def _traffic(kind: str, size: int) -> Kernel:
    tensor = TensorType((size,), ElementType.F32)
    body = "      %y = arith.addf %x0, %x0 : f32 loc(unknown)"
    return Kernel(f"read_write_{kind}", kind, _elementwise(tensor, "", "", "", body, "%y"), tensor, 2 * tensor.nbytes)


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


def ceilings(
    rates: Mapping[str, float], signature: Signature, cpu_flags: str, traffic_bytes: int, cache_bytes: int | None
) -> tuple[float | None, float | None]:
    """(flops per s, bytes per s) that nothing with these types and this traffic can exceed; None where unknown."""
    compute = compute_kind(signature, cpu_flags)
    return rates.get(compute) if compute else None, rates.get(traffic_kind(traffic_bytes, cache_bytes))
