"""The cases in this file show all known failures that dispatchflow lists for IREE 3.13.

The exceptions are the failures in `ELSEWHERE`, which occur only on some CPUs."""

from __future__ import annotations

import pytest
from support import lavapipe
from support.known_cases import made
from support.project import REPOSITORY, Project

from dispatchflow.cases import known_failures
from dispatchflow.project.workspace import Workspace

EXAMPLES = {
    "vmvx has no sums in bf16, nor the zero that one begins with": (
        *("matmul", "8x8x8", "bf16_bf16", "default", "vmvx"),
    ),
    "rows of i4 that tiles do not divide are read with a masked load, which is not split into bytes": (
        *("matmul", "33x48x128", "i4", "default", "llvm-cpu-x86-64-v4"),
    ),
    "a double tiling that does not divide rows of i4 reads them with a masked load, on CPUs without AVX-512 too": (
        *("matmul", "40x24x56", "i4", "double_tiling_64x64_4x16x4", "llvm-cpu-x86-64-v3"),
    ),
    "rows of i4 of dynamic size are read with a masked load, on CPUs without AVX-512": (
        *("matmul", "40x24x56", "i4", "default", "llvm-cpu-x86-64-v3"),
        {"dynamic": "mnk"},
    ),
    "GPUs are given a product of i8 and i4 as one vector.contract of both types": (
        *("matmul", "64x64x64", "i8_i4", "default", "cuda-sm_80"),
    ),
    "i4 is unpacked with a vector.bitcast that the SPIR-V of Metal and of named Vulkan GPUs does not have": (
        *("matmul", "33x64x128", "i4", "default", "metal"),
    ),
    "products of 8-bit types leave conversions of vectors of i32 in the SPIR-V for Adreno": (
        *("matmul", "4x16x4", "i8", "default", "vulkan-adreno"),
    ),
    "scales of blocks are not lowered for CUDA": ("scaled_matmul", "33x48x128", "f8E4M3FN", "default", "cuda-sm_89"),
    "scales of blocks of f8 are lowered for gfx950 only": (
        *("scaled_matmul", "33x48x128", "f8E4M3FN", "default", "rocm-gfx1201"),
    ),
    "scales of blocks are not lowered for SPIR-V": ("scaled_matmul", "33x48x128", "f4E2M1FN", "default", "vulkan"),
    "data tiling packs convolutions of 1x1 windows and stride 1 only, and no attention": (
        "conv2d",
        "1x5x8x3x7x1x3",
        "i8",
        "data_tiling",
        "llvm-cpu",
    ),
    "only sums of a matmul are split, of static size and into slices of equal length; else the flag is ignored": (
        *("batch_matmul", "2x8x8x24", "f32", "split_k_4", "llvm-cpu"),
    ),
    "a product of unsigned and signed integers is a generic op, whose sum is not split": (
        *("matmul", "40x24x56", "ui8_i8", "split_k_2", "llvm-cpu"),
    ),
    "vmvx has no f16 arithmetic": ("matmul", "1x24x40", "f16_f32", "default", "vmvx"),
    "vmvx cannot pad bf16 to whole tiles: it has no bf16 constants": (
        "matmul",
        "5x24x42",
        "bf16",
        "data_tiling",
        "vmvx",
    ),
    "llvm-cpu has no tiles for f64, i64, i32, ui8 and i4": ("matmul", "1x24x40", "f64", "data_tiling", "llvm-cpu"),
    "tanh and gelu of f64 are left to the mathematical library, which is not linked": (
        *("elementwise", "40x24", "f64", "default", "llvm-cpu"),
        {"kind": "gelu"},
    ),
    "a chain whose first product is one number, which is narrowed, cannot be packed": (
        *("chain", "1x24x40x1", "f16_f32_f16", "data_tiling", "llvm-cpu"),
    ),
    "convolutions of each channel by itself, channels first, lose their configuration where a dim is 1": (
        *("depthwise_conv2d", "1x5x8x7x1x3", "f32"),
        *("conv_tile_and_decompose_0x8x32x32_1x1x8x32_1x1x8", "llvm-cpu", {"layout": "nchw_chw"}),
    ),
    "data tiling packs nothing for CUDA, Vulkan and Metal": ("matmul", "8x8x8", "f32", "data_tiling", "metal"),
    "no f8 is compiled for a GPU before sm_89": ("matmul", "4x4x4", "f8E5M2", "default", "cuda-sm_80"),
    "rocm packs for its matrix instructions, and fails where it has none for the types": (
        *("matmul", "48x32x16", "i64", "data_tiling", "rocm-gfx1201"),
    ),
    "sums in f16 and bf16 get an instruction that sums in f32": ("matmul", "64x64x64", "f16", "default", "rocm-gfx942"),
    "rocm cannot pack a chain of few rows": ("chain", "1x24x40x1", "bf16_f32_bf16", "data_tiling", "rocm-gfx942"),
    "these GPUs have at most the FNUZ types of f8": ("matmul", "1x24x40", "f8E4M3FN", "default", "rocm-gfx942"),
    "rocm cannot pack vectors, nor the slices of a sum": ("vecmat", "64x64", "i8", "data_tiling", "rocm-gfx90a"),
    "attention is not compiled to SPIR-V": ("attention", "1x5x7x9x40", "f16", "default", "vulkan"),
    "products of narrow types are vectorized for SPIR-V with a vector.bitcast that is then refused": (
        *("conv2d", "1x16x16x16x16x1x1", "bf16", "default", "metal"),
    ),
    "the SPIR-V that IREE makes by default has no 64-bit floats": ("elementwise", "1x24", "f64", "default", "vulkan"),
    "products of i64 are vectorized for SPIR-V with an op that is then refused": (
        *("matmul", "64x64x64", "i64", "default", "vulkan"),
    ),
    "products of i8 become dot products that Metal's SPIR-V does not have": (
        *("matmul", "48x32x16", "i8", "default", "metal"),
    ),
    "a last tile that is cut off is not bufferized unless its loop has one iteration": (
        *("matmul", "40x24x20", "f16_f32", "tile_and_fuse_64x64x32_2x2_MFMA_F32_16x16x16_F16", "rocm-gfx942"),
        {"layout": "tn"},
    ),
    "a promoted operand that is cut off is scattered by threads that may not write": (
        *("matmul", "48x64x64", "f16_f32", "tile_and_fuse_32x64x32_2x2_MFMA_F32_16x16x16_F16", "rocm-gfx942"),
    ),
    "NV_WMMA instructions are listed and not compiled": (
        *("matmul", "256x256x256", "f16_f32", "vector_distribute_64x64x32_2x2_NV_WMMA_F32_16x16x16_F16", "cuda-sm_80"),
    ),
    "tiles that are cut off along two dims of an operand, or not shared out evenly to the threads, are not distributed": (
        *("matmul", "40x24x20", "f16_f32", "vector_distribute_32x64x32_2x2_MFMA_F32_16x16x16_F16", "rocm-gfx942"),
    ),
    "vmvx cannot take a tile out of i4 where sizes are dynamic": (
        *("matmul", "40x24x56", "i4", "default", "vmvx", {"dynamic": "m"}),
    ),
    "the slices of a split sum are allocated without the number of rows, where that is dynamic": (
        *("matmul", "40x24x56", "f32", "split_k_4", "llvm-cpu", {"dynamic": "m"}),
    ),
    "products of one row or column in ui8 become products with vectors, and lose their configuration": (
        *("matmul", "1x24x40", "ui8_i8", "double_tiling_64x64_8x8x1", "llvm-cpu"),
    ),
    "vector tiles of 512 native vectors and more are refused": (
        *("matmul", "512x512x512", "f32", "double_tiling_64x64_32x32x64", "llvm-cpu"),
    ),
    "nothing is fused with the sum if the result is a single element: there is one more dispatch than expected": (
        *("matmul", "1x1x8", "f32", "default", "llvm-cpu", {"epilogue": "bias"}),
    ),
    "nothing is packed where all sizes are 1": ("vecmat", "1x1", "f32", "data_tiling", "vmvx"),
    "a padded window with a stride is compiled for another image where its result has one row or column": (
        *("conv2d", "1x2x2x4x8x3x3", "f32", "default", "vmvx", {"padding": 1, "stride": 3}),
    ),
    "keys of more than 128 elements are cut off, and results are wrong": (
        *("attention", "1x4x4x129x8", "f32", "default", "llvm-cpu"),
    ),
    "results of f8 that are below the smallest normal number are flushed to 0": (
        *("matmul", "128x128x1", "f8E5M2", "default", "llvm-cpu", {"epilogue": "cast"}),
    ),
}
WRONG_ON_LAVAPIPE = {
    "results are missing on lavapipe, where depthwise convolutions have the channels first": {
        "operation": "depthwise_conv2d", "shape": "1x16x16x8x3x3", "padding": "1", "layout": "nchw_chw",
    },
    "with few rows, several threads add their sums to the same element, on lavapipe at least": {
        "operation": "matmul", "shape": "2x24x40", "accumulate": "yes", "tuning": "base_vectorize_64x64_8x8x4",
    },
    "with small images, several threads add their sums to the same element, on lavapipe at least": {
        "operation": "conv2d", "shape": "1x5x8x3x7x1x3", "accumulate": "yes", "layout": "nchw_fchw",
    },
    "exp(x) may be off by 3 + 2|x| ulp (Vulkan specification, Precision and Operation of SPIR-V Instructions), and the bound, the same for all targets, is 11 u": {
        "operation": "elementwise", "shape": "40x24", "kind": "exp",
    },
}  # fmt: skip
ELSEWHERE = {
    "largest elements of f16 are left to the mathematical library, which is not linked, on CPUs without f16",
}


def test_each_shipped_entry_has_an_example() -> None:
    present = {entry.reason for entry in known_failures.shipped() if entry.holds_for((3, 13, 0))}
    assert present == EXAMPLES.keys() | WRONG_ON_LAVAPIPE.keys() | ELSEWHERE


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace(tmp_path_factory.mktemp("known"), {})


@pytest.mark.iree
@pytest.mark.parametrize("reason", EXAMPLES)
def test_an_example_fails_as_its_entry_describes(reason: str, workspace: Workspace) -> None:
    *words, last = EXAMPLES[reason]
    case = made(*words, **last) if isinstance(last, dict) else made(*words, last)
    workspace.executor.verify(case, workspace.resolver.chain(case).device)
    chain = workspace.resolver.chain(case)
    assert chain.known is not None, chain.failure
    assert chain.known.reason == reason


@pytest.mark.iree
@pytest.mark.parametrize("reason", WRONG_ON_LAVAPIPE)
def test_results_that_are_wrong_on_lavapipe_are_known(reason: str, tmp_path) -> None:
    try:
        vulkan = lavapipe.environment(REPOSITORY / ".lavapipe")
    except lavapipe.Unavailable as error:
        pytest.skip(f"no Vulkan here: {error}")
    words = [f"{word}={value}" for word, value in {**WRONG_ON_LAVAPIPE[reason], "target": "vulkan"}.items()]
    outcome = Project.make(tmp_path / "p").doit(*words, "verify", **vulkan)
    assert f"known failure: {reason} (" in outcome.out, str(outcome)
    assert outcome.code == 0
