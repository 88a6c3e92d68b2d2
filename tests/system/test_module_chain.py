"""Modules of users, in several dialects, are emitted, compiled, verified and measured."""

import numpy as np
import pytest
from support.module_operand import X
from support.project import Project

pytest_plugins = ["support.project"]
pytestmark = pytest.mark.iree

SCALED = """\
// {comment}
func.func @scaled(%x: tensor<4x8xf32>, %n: i32) -> (tensor<4x8xf32>, i32) {{
  %c = arith.constant dense<{factor}> : tensor<4x8xf32>
  %0 = arith.mulf %x, %c : tensor<4x8xf32>
  return %0, %n : tensor<4x8xf32>, i32
}}
func.func @ramp() -> tensor<8xi32> {{
  %0 = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7]> : tensor<8xi32>
  %1 = arith.addi %0, %0 : tensor<8xi32>
  return %1 : tensor<8xi32>
}}
"""
DIALECTS = {
    "torch": """\
func.func @main(%x: !torch.vtensor<[4,8],f32>) -> !torch.vtensor<[4,8],f32> {
  %0 = torch.aten.relu %x : !torch.vtensor<[4,8],f32> -> !torch.vtensor<[4,8],f32>
  return %0 : !torch.vtensor<[4,8],f32>
}
""",
    "onnx": """\
func.func @main(%x: !torch.vtensor<[4,8],f32>) -> !torch.vtensor<[4,8],f32> attributes {torch.onnx_meta.opset_version = 14 : si64} {
  %0 = torch.operator "onnx.Relu"(%x) : (!torch.vtensor<[4,8],f32>) -> !torch.vtensor<[4,8],f32>
  return %0 : !torch.vtensor<[4,8],f32>
}
""",
    "stablehlo": """\
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %c = stablehlo.constant dense<0.0> : tensor<4x8xf32>
  %0 = stablehlo.maximum %x, %c : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
""",
    "tosa": """\
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %c = "tosa.const"() <{values = dense<0.0> : tensor<4x8xf32>}> : () -> tensor<4x8xf32>
  %0 = tosa.maximum %x, %c : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
""",
}
SPEC = """
[[sweep]]
operation = "module"
file = "ir/scaled.mlir"
function = "scaled"
inputs = ["@ir/x.npy", "5"]
expected = ["ir/y.npy", "5"]
threads = 1

[[sweep]]
operation = "module"
file = "ir/scaled.mlir"
function = "ramp"
reference = "vmvx"
threads = 1

[[sweep]]
operation = "module"
file = ["ir/torch.mlir", "ir/onnx.mlir", "ir/stablehlo.mlir", "ir/tosa.mlir"]
inputs = ["4x8xf32=@ir/x.bin"]
expected = ["ir/relu.bin"]
threads = 1
"""
NAMES = {
    f"module_{title}_default@llvm-cpu-1t"
    for title in ("scaled_scaled", "scaled_ramp", *(f"{d}_main" for d in DIALECTS))
}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    project = Project.make(tmp_path_factory.mktemp("module"), SPEC)
    folder = project.root / "specs/ir"
    folder.mkdir()
    (folder / "scaled.mlir").write_text(SCALED.format(comment="one", factor=2.0))
    for name, text in DIALECTS.items():
        (folder / f"{name}.mlir").write_text(text)
    np.save(folder / "x.npy", X)
    np.save(folder / "y.npy", X * 2)
    (folder / "x.bin").write_bytes(X.tobytes())
    (folder / "relu.bin").write_bytes(np.maximum(X, 0).tobytes())
    outcome = project.doit("profile", "protocol=fast")
    assert outcome.code == 0, str(outcome)
    return project


def test_modules_of_any_dialect_are_verified_and_measured(project):
    rows = {row["case"]: row for row in project.rows()}
    assert set(rows) == NAMES
    for name, row in rows.items():
        assert row["verification"] == ("equal" if "ramp" in name else "within bound"), row
        assert row["median_ns"] > 0
        assert (row["operation"], row["flops"], row["flops_per_s"], row["element_types"]) == (
            "module",
            None,
            None,
            None,
        )
    again = project.doit("profile", "protocol=fast")
    assert "6 cases: up to date" in again.out


def test_editing_a_module_verifies_only_it_again_and_editing_a_comment_recompiles_nothing(project, tmp_path):
    copied = project.copy(tmp_path / "p")
    file = copied.root / "specs/ir/scaled.mlir"
    file.write_text(SCALED.format(comment="another comment", factor=2.0))
    outcome = copied.doit("profile", "protocol=fast")
    assert "6 cases: 5 reused; 1 emitted in " in outcome.out, str(outcome)
    assert "compiled" not in outcome.out
    file.write_text(SCALED.format(comment="another comment", factor=3.0))
    outcome = copied.doit("verify")
    assert outcome.code == 1
    assert "31 elements of result 0 are wrong; worst at [0, 0]: got -48.0, expected -32.0" in outcome.out
    assert "dialect" not in outcome.out
    assert not any(f"compile module_{name}" in outcome.out for name in DIALECTS)
    file.write_text(SCALED.format(comment="another comment", factor=2.0))
    assert "6 cases: up to date" in copied.doit("profile", "protocol=fast").out


def test_a_module_with_something_missing_fails_only_its_own_case(project, tmp_path):
    copied = project.copy(tmp_path / "p")
    folder = copied.root / "specs/ir"
    (folder / "broken.mlir").write_text("func.func @main() -> tensor<4xf32> { nonsense }")
    (folder / "dynamic.mlir").write_text(
        "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {\n"
        "  %0 = arith.addf %x, %x : tensor<?xf32>\n  return %0 : tensor<?xf32>\n}\n"
    )
    sweep = '[[sweep]]\noperation = "module"\nthreads = 1\n'
    copied.add(
        f'{sweep}file = ["ir/broken.mlir", "ir/dynamic.mlir"]\n'
        f'{sweep}file = "ir/dynamic.mlir"\nname = "sized"\ninputs = ["16xf32"]\nreference = "vmvx"\n'
        f'{sweep}file = "ir/stablehlo.mlir"\nname = "unsure"\n'
        f'{sweep}file = "ir/empty.mlir"\nfunction = "main"\n'
        f'{sweep}file = "ir/stablehlo.mlir"\nname = "alone"\nreference = "metal"\n'
    )
    (folder / "empty.mlir").touch()
    outcome = copied.doit("profile:module_*", "protocol=fast")
    rows = {row["case"].split("_")[1]: row for row in copied.rows()}
    assert outcome.code == 1
    assert "cannot parse broken.mlir: 1:38: custom op 'nonsense' is unknown" in rows["broken"]["reason"]
    assert "give its sizes" in rows["dynamic"]["reason"]
    assert (rows["sized"]["verification"], rows["sized"]["reason"]) == ("within bound", rows["sized"]["reason"])
    assert rows["unsure"]["verification"] == "not compared"
    assert (
        "not compared, because there is nothing to compare with: module_unsure_main_default@llvm-cpu-1t" in outcome.out
    )
    assert rows["empty"]["reason"] == "empty.mlir is empty"
    assert {name for name, row in rows.items() if row["status"] == "failed"} == {"broken", "dynamic", "empty"}
    # Its reference has no device here: the case does not run, does not fail and is not reported as compared.
    assert (rows["alone"]["status"], rows["alone"]["verification"]) == ("no device", "not compared")
    assert rows["alone"]["reason"].startswith("the reference, module on metal: ")
    again = copied.doit("profile", "protocol=fast")
    assert "nothing to do" in again.out
    assert "3 failed" in again.out
    warned = copied.doit("profile:module_alone*", "protocol=fast", "verify=warn")
    assert (warned.code, copied.rows()[-1]["verification"]) == (0, "not compared"), warned
    assert copied.rows()[-1]["median_ns"] > 0


def test_a_module_is_named_on_the_command_line_and_repeats_by_hand(project, tmp_path):
    copied = project.copy(tmp_path / "p")
    words = ("file=specs/ir/scaled.mlir", "function=scaled", "inputs=4x8xf32=1;7", "reference=vmvx", "threads=1")
    outcome = copied.doit(*words, "verify")
    assert outcome.code == 0, str(outcome)
    assert "1 case: " in outcome.out
    script = copied.root / "build/module_scaled_scaled_default@llvm-cpu-1t/repro.sh"
    import subprocess

    assert "same bytes" in subprocess.run([script, "compile"], capture_output=True, text=True, check=True).stdout
    subprocess.run([script, "run"], check=True, capture_output=True)
    assert np.array_equal(np.fromfile(script.parent / "again_0.bin", "float32"), np.full(32, 2.0, "float32"))
