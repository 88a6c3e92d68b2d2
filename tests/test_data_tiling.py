"""Where data tiling can be had: what a skip says, and that the compiler agrees."""

import pytest

from dispatchflow.dispatch import Case, Dispatch
from dispatchflow.operations import OPERATIONS
from dispatchflow.plan import unsupported_reason
from dispatchflow.targets import TARGETS
from dispatchflow.tunings import TUNINGS
from dispatchflow.workspace import Workspace

CPU = "llvm-cpu-x86-64-v3"
CASES = [
    ("data_tiling", "rocm-gfx942", "matmul", (64, 64, 64), "f16_f32", None),
    ("data_tiling", "rocm-gfx942", "matmul", (64, 64, 64), "f16", "has none for f16,f16->f16"),
    ("data_tiling_global_opt", "rocm-gfx942", "matmul", (64, 64, 64), "f32", None),
    ("data_tiling", "rocm-gfx942", "matvec", (64, 64), "f32", "rocm cannot pack a matvec"),
    ("data_tiling", CPU, "chain", (1, 24, 40, 1), "f16_f32_f16", "this path packs no chain of 1 row by 1"),
    ("data_tiling_global_opt", CPU, "chain", (1, 24, 40, 1), "f16_f32_f16", None),
    ("data_tiling", CPU, "matmul", (64, 64, 64), "f64", "llvm-cpu packs nothing of f64"),
    ("data_tiling_global_opt", CPU, "matmul", (64, 64, 64), "i32", "llvm-cpu packs nothing of i32"),
    ("data_tiling", CPU, "matvec", (1, 1), "f32", "this path packs nothing where all sizes are 1"),
    ("data_tiling_global_opt", CPU, "matmul", (1, 1, 1), "f32", None),
    ("data_tiling", "vmvx", "matmul", (64, 64, 64), "f64", None),
    ("data_tiling", CPU, "batch_matmul", (3, 1, 1, 1), "f16", None),
]
MORE = [
    ("data_tiling", CPU, "chain", (1, 1, 40, 1), "f16_f32_f16", None),
    ("data_tiling", CPU, "chain", (1, 24, 40, 1), "f16", None),
    ("data_tiling", "rocm-gfx1100", "matmul", (64, 64, 64), "f16", None),
    ("data_tiling", "rocm-gfx1100", "matmul", (64, 64, 64), "f32", "has none for f32,f32->f32"),
    ("data_tiling", CPU, "chain", (2, 24, 40, 1), "bf16_f32_bf16", None),
    ("data_tiling", CPU, "chain", (1, 24, 40, 2), "bf16_f32_bf16", None),
    ("data_tiling", CPU, "matmul", (64, 64, 64), "i64", "llvm-cpu packs nothing of i64"),
    ("data_tiling", CPU, "matmul", (64, 64, 64), "i16", None),
    ("data_tiling", "vmvx", "matmul", (64, 64, 64), "i32", None),
    ("data_tiling", "vmvx", "matmul", (1, 1, 1), "f32", "all sizes are 1"),
    ("data_tiling", "rocm-gfx942", "matmul", (1, 1, 1), "f32", "all sizes are 1"),
]


def question(tuning, target, name, shape, dtype):
    return OPERATIONS[name].make(shape, dtype), TUNINGS["data_tiling"].parse(tuning), TARGETS[target]


@pytest.mark.parametrize(("tuning", "target", "name", "shape", "dtype", "says"), [*CASES, *MORE])
def test_what_cannot_be_packed_is_a_skip_with_the_reason(tuning, target, name, shape, dtype, says):
    reason = unsupported_reason(*question(tuning, target, name, shape, dtype))
    assert reason == says if says is None else says in reason


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    return Workspace(tmp_path_factory.mktemp("packed"), {})


@pytest.mark.iree
@pytest.mark.parametrize(("tuning", "target", "name", "shape", "dtype", "says"), CASES)
def test_the_compiler_packs_what_is_no_skip_and_nothing_else(tuning, target, name, shape, dtype, says, workspace):
    operation, asked, where = question(tuning, target, name, shape, dtype)
    record = workspace.executor.compile(Case(Dispatch(operation, asked), where))
    assert record.ok == (says is None), record.reason
