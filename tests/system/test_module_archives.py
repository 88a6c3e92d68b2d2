"""A module's inputs and expected results may be in `.npz` archives; inputs may be drawn from a range."""

import numpy as np
import pytest
from support.module_operand import X
from support.project import Project, only

pytest_plugins = ["support.project"]
pytestmark = pytest.mark.iree

DIFFERENCE = """\
func.func @main(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>, %n: i32) -> (tensor<4x8xf32>, i32) {
  %0 = arith.subf %a, %b : tensor<4x8xf32>
  %m = arith.addi %n, %n : i32
  return %0, %m : tensor<4x8xf32>, i32
}
"""
SPEC = """
[[sweep]]
operation = "module"
file = "difference.mlir"
inputs = "@ref.npz:in*"
expected = ["@ref.npz:out*"]
threads = 1
"""


def save(project, **arrays):
    np.savez(project.root / "specs/ref.npz", **arrays)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    project = Project.make(tmp_path_factory.mktemp("archives"), SPEC)
    (project.root / "specs/difference.mlir").write_text(DIFFERENCE)
    save(project, in10=X, in2=X * 3, in11=np.int32(7), out0=X * 2, out1=np.int32(14))
    outcome = project.doit("verify")
    assert outcome.code == 0, str(outcome)
    return project


def test_members_are_arguments_in_natural_order_and_numbers_too(project):
    (row,) = project.query("select ok, json_extract(facts, '$.verification') from record where stage = 'verify'")
    assert row == (1, "within bound")
    told = (project.root / "build/module_difference_main_default@llvm-cpu-1t/case.txt").read_text()
    assert "ref.npz:in2; " in told and "ref.npz:in11" in told


def test_only_changed_archive_members_that_a_case_reads_repeat_its_verification(project, tmp_path):
    copied = project.copy(tmp_path / "p")
    save(copied, in10=X, in2=X * 3, in11=np.int32(7), out0=X * 2, out1=np.int32(14), more=X)
    made, _ = copied.made_by("verify")
    assert made == only()
    save(copied, in10=X, in2=X * 3, in11=np.int32(7), out0=X * 2, out1=np.int32(15))
    made, outcome = copied.made_by("verify", code=1)
    assert made == only(verify=1)
    assert "result 1" in outcome.out


@pytest.mark.parametrize(
    ("expected", "told"),
    [
        ('["4x8xf32=@y.bin", "14"]', None),
        ('["4x8xf64=@y.bin", "14"]', "expected result 0 is given as 4x8xf64; the function gives 4x8xf32"),
        ('["4x8xf32=@short.bin", "14"]', "short.bin has 64 B; 4x8xf32 needs 128"),
        ('["@ref.npz:in2", "@ref.npz:out0"]', "ref.npz:out0 holds float32 of shape (4, 8); the number i32 needs one"),
        ('["@ref.npz:out1", "14"]', "ref.npz:out1 holds int32 of shape (); the function gives 4x8xf32"),
    ],
)
def test_expected_results_have_types(project, tmp_path, expected, told):
    copied = project.copy(tmp_path / "p")
    (copied.root / "specs/y.bin").write_bytes((X * 2).tobytes())
    (copied.root / "specs/short.bin").write_bytes(X[:2].tobytes())
    copied.add(SPEC.replace('["@ref.npz:out*"]', expected), "a.toml")
    outcome = copied.doit("verify")
    assert outcome.code == (told is not None), str(outcome)
    assert told is None or told in outcome.out


GATHER = """\
func.func @main(%table: tensor<16x8xf32>, %ids: tensor<64xi64>) -> tensor<64x8xf32> {
  %e = tensor.empty() : tensor<64x8xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%ids : tensor<64xi64>) outs(%e : tensor<64x8xf32>) {
    ^bb0(%id: i64, %out: f32):
      %i = arith.index_cast %id : i64 to index
      %j = linalg.index 1 : index
      %x = tensor.extract %table[%i, %j] : tensor<16x8xf32>
      linalg.yield %x : f32
  } -> tensor<64x8xf32>
  return %0 : tensor<64x8xf32>
}
"""


def test_a_gather_gets_indices_of_a_range(tmp_path):
    project = Project.make(tmp_path / "p")
    (project.root / "gather.mlir").write_text(GATHER)
    outcome = project.doit("file=gather.mlir", "inputs=random;0..15", "reference=vmvx", "threads=1", "verify")
    assert outcome.code == 0, str(outcome)
    folder = project.root / "build/module_gather_main_default@llvm-cpu-1t"
    ids = np.fromfile(folder / "given_1.bin", "int64")
    assert ids.min() >= 0 and ids.max() <= 15
    table = np.fromfile(folder / "given_0.bin", "float32").reshape(16, 8)
    assert np.array_equal(np.fromfile(folder / "expected_0.bin", "float32").reshape(64, 8), table[ids])
