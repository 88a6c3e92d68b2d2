"""Data tiling packs the operands of a matrix product, or the case is a known failure with a reason."""

import pytest
from support.skips import unsupported_reason

from dispatchflow.cases.case import Case
from dispatchflow.cases.dispatch import Dispatch
from dispatchflow.iree.targets import TARGETS
from dispatchflow.operations import OPERATIONS
from dispatchflow.project.workspace import Workspace
from dispatchflow.tunings import TUNINGS

CPU = "llvm-cpu-x86-64-v3"
CASES = [
    ("data_tiling", "rocm-gfx942", "matmul", (64, 64, 64), "f16_f32", None),
    (
        "data_tiling",
        "rocm-gfx942",
        "matmul",
        (64, 64, 64),
        "f16",
        "rocm packs for its matrix instructions, and fails where it has none for the types",
    ),
    ("data_tiling_global_opt", "rocm-gfx942", "matmul", (64, 64, 64), "f32", None),
    ("data_tiling", "rocm-gfx942", "matvec", (64, 64), "f32", "rocm cannot pack vectors, nor the slices of a sum"),
    (
        "data_tiling",
        CPU,
        "chain",
        (1, 24, 40, 1),
        "f16_f32_f16",
        "a chain whose first product is one number, which is narrowed, cannot be packed",
    ),
    ("data_tiling_global_opt", CPU, "chain", (1, 24, 40, 1), "f16_f32_f16", None),
    ("data_tiling", CPU, "matmul", (64, 64, 64), "f64", "llvm-cpu has no tiles for f64, i64, i32, ui8 and i4"),
    (
        "data_tiling_global_opt",
        CPU,
        "matmul",
        (64, 64, 64),
        "i32",
        "llvm-cpu has no tiles for f64, i64, i32, ui8 and i4",
    ),
    ("data_tiling", CPU, "matvec", (1, 1), "f32", "nothing is packed where all sizes are 1"),
    ("data_tiling_global_opt", CPU, "matmul", (1, 1, 1), "f32", None),
    ("data_tiling", "vmvx", "matmul", (64, 64, 64), "f64", None),
    ("data_tiling", CPU, "batch_matmul", (3, 1, 1, 1), "f16", None),
    ("data_tiling", CPU, "matmul_splitk", (40, 24, 64), "f32", None),
    (
        "data_tiling",
        CPU,
        "conv2d",
        (1, 8, 8, 16, 16, 3, 3),
        "f32",
        "data tiling packs convolutions of 1x1 windows and stride 1 only, and no attention",
    ),
    (
        "data_tiling",
        "cuda-sm_80",
        "matmul",
        (64, 64, 64),
        "f32",
        "data tiling packs nothing for CUDA, Vulkan and Metal",
    ),
    (
        "data_tiling",
        "vmvx",
        "matmul",
        (40, 24, 2),
        "bf16",
        "vmvx cannot pad bf16 to whole tiles: it has no bf16 constants",
    ),
    ("data_tiling", "vmvx", "matmul", (24, 40, 4), "bf16", None),
]


def question(tuning, target, name, shape, dtype):
    return OPERATIONS[name].make(shape, dtype), TUNINGS["data_tiling"].parse(tuning), TARGETS[target]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    return Workspace(tmp_path_factory.mktemp("packed"), {})


@pytest.mark.iree
@pytest.mark.parametrize(("tuning", "target", "name", "shape", "dtype", "says"), CASES)
def test_a_case_that_data_tiling_does_not_pack_is_a_known_failure(tuning, target, name, shape, dtype, says, workspace):
    operation, asked, where = question(tuning, target, name, shape, dtype)
    assert unsupported_reason(operation, asked, where) is None
    case = Case(Dispatch(operation, asked), where)
    record, known = workspace.executor.compile(case), workspace.resolver.chain(case).known
    assert record.ok == (says is None), record.reason
    assert (known.reason if known else None) == says, record.reason


def test_data_tiling_of_an_operation_without_a_product_is_skipped():
    softmax = OPERATIONS["softmax"].make((64, 64))
    reason = unsupported_reason(softmax, TUNINGS["data_tiling"].parse("data_tiling"), TARGETS["llvm-cpu"])
    assert reason == "IREE packs no operands of softmax"
