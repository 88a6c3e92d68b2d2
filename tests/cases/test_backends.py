"""A case with the default tuning is a known failure if and only if its backend does not compile it."""

import pytest

from dispatchflow.cases.case import Case
from dispatchflow.cases.dispatch import Dispatch
from dispatchflow.iree.targets import TARGETS
from dispatchflow.operations import OPERATIONS
from dispatchflow.project.workspace import Workspace
from dispatchflow.tunings import TUNINGS

(DEFAULT,) = TUNINGS["default"].expand({})

# Cases on both sides of each known failure's rule: target, operation, types, shape, layout, whether it compiles.
COMPILED = [
    ("vulkan", "attention", "f32", "1x4x4x4x4", None, False),
    ("metal", "attention", "f16", "1x4x4x4x4", None, False),
    ("cuda-sm_80", "matmul", "f8E4M3FN", "4x4x4", None, False),
    ("cuda-sm_89", "matmul", "f8E4M3FN", "4x4x4", None, True),
    ("rocm-gfx942", "matmul", "f8E5M2", "4x4x4", None, False),
    ("rocm-gfx1201", "matmul", "f8E5M2", "4x4x4", None, True),
    ("rocm-gfx942", "matmul", "f16", "16x16x16", None, False),
    ("rocm-gfx942", "matmul", "f16", "16x16x8", None, True),
    ("rocm-gfx942", "conv2d", "f16", "1x16x16x16x16x1x1", None, False),
    ("rocm-gfx942", "conv2d", "f16", "1x6x6x16x16x3x3", None, True),
    ("vulkan", "matmul", "f16_f32", "4x16x4", "tt", False),
    ("vulkan", "matmul", "f16_f32", "33x16x4", "tn", True),
    ("vulkan", "batch_matmul", "bf16", "2x33x16x4", "tt", False),
    ("vulkan", "matmul", "bf16", "64x20x64", "tt", True),
    ("metal", "matmul", "i8", "2x8x4", "tt", False),
    ("metal", "batch_matmul", "i8", "2x64x64x64", "tt", True),
    ("metal", "matmul", "i8", "32x4x28", "tt", False),
    ("metal", "matmul", "i8", "48x4x28", "tt", True),
    ("vulkan-rdna3", "matmul", "f16_f32", "4x16x4", "tt", True),
]

_NAMED = [name for name in TARGETS if name.startswith("vulkan-") and name != "vulkan-rdna3"]
"""The targets for specific Vulkan GPUs, except `vulkan-rdna3`, which is in `COMPILED`.

Each of them compiles a matmul that the target `vulkan` does not compile."""

# Convolutions that are compiled as products, with their options.
CONVOLUTIONS = [
    ("vulkan", "conv2d", "f16_f32", "1x2x2x12x16x1x1", "nhwc_hwcf", {}, False),
    ("vulkan", "conv2d", "f16_f32", "1x2x2x12x16x1x1", "nchw_fchw", {}, True),
    ("vulkan", "conv2d", "bf16", "1x2x2x8x16x1x1", "nchw_fchw", {"stride": 2, "padding": 1}, False),
    ("vulkan", "conv2d", "f16", "1x1x1x8x16x1x1", "nhwc_hwcf", {}, True),
    ("vulkan", "conv2d", "f16", "1x4x4x8x16x3x3", "nhwc_hwcf", {}, True),
    ("vulkan", "conv2d", "f16", "1x2x4x1x16x1x4", "nhwc_hwcf", {}, False),
    ("vulkan", "conv2d", "f16", "1x2x2x32x32x1x1", "nchw_fchw", {"groups": 2}, False),
    ("vulkan", "conv2d", "f16", "1x2x2x16x16x1x1", "nhwc_hwcf", {"groups": 2}, True),
    ("vulkan", "depthwise_conv2d", "f16", "1x2x2x16x1x1", None, {}, True),
    ("metal", "conv2d", "i8", "1x2x2x8x8x1x1", "nhwc_hwcf", {}, False),
    ("metal", "conv2d", "i8", "1x2x2x8x8x1x1", "nchw_fchw", {}, True),
    ("metal", "quantized_conv2d", "i8", "2x1x1x8x8x1x1", "nchw_fchw", {}, True),
    ("metal", "quantized_conv2d", "i8", "2x1x1x8x8x1x1", "nchw_fchw", {"input_zp": 0}, False),
    ("metal", "quantized_conv2d", "i8", "1x2x2x6x8x1x1", "nhwc_hwcf", {}, True),
]

# Operations that continue after a sum: with a result of a single element, and of more.
EPILOGUES = [
    ("llvm-cpu", "matmul", "f32", "1x1x16", "tt", {"epilogue": "bias"}, False),
    ("cuda-sm_80", "batch_matmul", "f16", "1x1x1x1", None, {"epilogue": "residual"}, False),
    ("vmvx", "conv2d", "f32", "1x3x3x4x1x3x3", "nchw_fchw", {"epilogue": "scale"}, False),
    ("llvm-cpu", "matmul", "f32", "1x2x16", "tt", {"epilogue": "bias"}, True),
    ("llvm-cpu", "matmul", "f32", "1x1x16", "tt", {"epilogue": "bias", "dynamic": "m"}, True),
    ("llvm-cpu", "matmul", "f32", "1x1x16", "tt", {"epilogue": "bias", "dynamic": "k"}, False),
    ("llvm-cpu", "matmul", "f32", "1x1x16", "tt", {}, True),
    ("llvm-cpu", "matmul_splitk", "f32", "1x1x16", "nn", {"slices": 4}, True),
    ("vmvx", "matmul_splitk", "i8", "1x1x16", "tt", {"slices": 4}, True),
    ("llvm-cpu", "matmul_splitk", "f16_f32_f16", "1x1x16", "tt", {"slices": 4}, False),
]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    return Workspace(tmp_path_factory.mktemp("backends"), {})


@pytest.mark.iree
@pytest.mark.parametrize(
    ("target", "name", "dtype", "shape", "layout", "options", "compiles"),
    [
        *((*words, {}, compiles) for *words, compiles in COMPILED),
        *CONVOLUTIONS,
        *EPILOGUES,
        *(pytest.param(name, "matmul", "f16_f32", "4x16x4", "tt", {}, True, marks=pytest.mark.slow) for name in _NAMED),
    ],
)
def test_cases_that_a_backend_cannot_compile_are_known_failures(
    target, name, dtype, shape, layout, options, compiles, workspace
):
    operation = OPERATIONS[name].make(tuple(map(int, shape.split("x"))), dtype, layout, **options)
    case = Case(Dispatch(operation, DEFAULT), TARGETS[target])
    record, chain = workspace.executor.compile(case), workspace.resolver.chain(case)
    assert record.ok == compiles, record.reason
    assert (chain.known is not None) == (not compiles), record.reason
    assert chain.failure is not None or workspace.known.passing(case, chain.made) is None


def test_types_that_a_backend_does_not_compile_are_not_skipped(tmp_path):
    words = {"operation": ("matmul",), "m": [128], "n": [128], "k": [128], "dtype": "f16;f8E5M2;f64"}
    found = Workspace(tmp_path, words | {"target": "vulkan,cuda-sm_80,vmvx"}).plan
    assert (len(found.cases), found.skips) == (9, ())
