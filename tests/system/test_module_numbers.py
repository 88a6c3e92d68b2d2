"""Results are compared even if they are bare numbers, or if their sizes are known only after a call."""

import re

import numpy as np
import pytest
from support.module_operand import X
from support.project import Project

pytest_plugins = ["support.project"]
pytestmark = pytest.mark.iree

TURNED = """\
func.func @main(%x: tensor<?x?x{type}>) -> tensor<?x?x{type}> {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %x, %c0 : tensor<?x?x{type}>
  %n = tensor.dim %x, %c1 : tensor<?x?x{type}>
  %s = tensor.from_elements %n, %m : tensor<2xindex>
  %z = tensor.reshape %x(%s) : (tensor<?x?x{type}>, tensor<2xindex>) -> tensor<?x?x{type}>
  return %z : tensor<?x?x{type}>
}}
"""
VIEW = """\
util.func public @main(%arg0: !hal.buffer_view) -> !hal.buffer_view {
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<4x8xf32>
  %c = arith.constant dense<3.0> : tensor<4x8xf32>
  %1 = arith.divf %0, %c : tensor<4x8xf32>
  %2 = hal.tensor.export %1 "output0" : tensor<4x8xf32> -> !hal.buffer_view
  util.return %2 : !hal.buffer_view
}
"""


def said(outcome):
    found = re.search(r"(?:^mistrusted: \S+: | FAILED: )(.*)", outcome.out, re.MULTILINE)
    return found and found[1]


def test_result_sizes_that_are_known_only_after_a_call_are_compared(tmp_path):
    project = Project.make(tmp_path)
    (tmp_path / "turned.mlir").write_text(TURNED.format(type="f32"))
    (tmp_path / "bf16.mlir").write_text(TURNED.format(type="bf16"))
    (tmp_path / "view.mlir").write_text(VIEW)
    third = X / np.float32(3)
    arrays = {"x": X, "z": X.reshape(8, 4), "third": third, "near": third * np.float32(1 + 1e-6)}
    arrays |= {"far": third * np.float32(1.01), "wide": third.astype("f8"), "third_z": third.reshape(8, 4)}
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)

    def verify(file, expected, inputs="@x.npy"):
        return project.doit("verify", f"file={file}.mlir", f"inputs={inputs}", expected, "threads=1")

    assert said(verify("turned", "expected=x.npy")) == "result 0 is 8x4, expected 4x8"
    right = verify("turned", "expected=z.npy")
    assert right.code == 0 and said(right) is None
    kept = verify("bf16", "reference=vmvx", "4x8xbf16")
    assert kept.code == 0 and said(kept) is None, str(kept)
    types = tmp_path / "build/module_bf16_main_default@llvm-cpu-1t/expected_types.txt"
    assert types.read_text() == "8x4xbf16\n"
    near = verify("view", "expected=near.npy")
    assert near.code == 0 and said(near) is None
    assert said(verify("view", "expected=third_z.npy")) == "result 0 is 4x8, expected 8x4"
    assert said(verify("view", "expected=wide.npy")) == "result 0 is 4x8xf32, expected 4x8xf64"
    assert "elements of result 0 are wrong; worst at [0, 0]: got -5.33" in said(verify("view", "expected=far.npy"))


NUMBERS = """\
func.func @main(%x: tensor<4x8xf32>, %f: f32, %n: i32) -> (tensor<4x8xf32>, f32, i8, i64, i1) {
  %two = arith.constant 2.0 : f32
  %g = arith.mulf %f, %two : f32
  %i = arith.trunci %n : i32 to i8
  %j = arith.extsi %n : i32 to i64
  %k = arith.trunci %n : i32 to i1
  return %x, %g, %i, %j, %k : tensor<4x8xf32>, f32, i8, i64, i1
}
"""


def test_bare_numbers_are_compared(tmp_path):
    project = Project.make(tmp_path)
    (tmp_path / "numbers.mlir").write_text(NUMBERS)
    np.save(tmp_path / "x.npy", X)

    def verify(expected, *more):
        return project.doit("verify", "file=numbers.mlir", "inputs=@x.npy;1.5707964;254", expected, "threads=1", *more)

    for expected in ("reference=vmvx", "expected=x.npy;3.14159;-2;254;0"):
        right = verify(expected)
        assert right.code == 0 and said(right) is None, right
    assert said(verify("expected=x.npy;3.14159;-2;254;0", "rtol=1e-8")) == (
        "result 1 is wrong: got 3.1415927, expected 3.14159012"
    )
    assert said(verify("expected=x.npy;-777;-2;254;0")) == "result 1 is wrong: got 3.1415927, expected -777.0"
    assert said(verify("expected=x.npy;3.14159;2;254;0")) == "result 2 is wrong: got -2, expected 2"
    left_out = verify("expected=x.npy")
    assert left_out.code == 0 and said(left_out) == "result 1 was not compared"
    assert "expected results given: 2; main gives 5: " in said(verify("expected=x.npy;3"))
    assert "expected result 2: 300 is not representable as i8" in said(verify("expected=x.npy;3;300;254;0"))


EPSILON = """\
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %epsilon = arith.constant dense<1.0e-5> : tensor<4x8xf64>
  %wide = arith.extf %x : tensor<4x8xf32> to tensor<4x8xf64>
  %sum = arith.addf %wide, %epsilon : tensor<4x8xf64>
  %y = arith.truncf %sum : tensor<4x8xf64> to tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
"""


def test_a_reference_is_compiled_with_the_demotion_of_its_case(tmp_path):
    # IREE 3.13 does not lower f64 for vmvx, so the reference compiles only with the demotion to f32.
    project = Project.make(tmp_path)
    (tmp_path / "epsilon.mlir").write_text(EPSILON)
    words = ("verify", "file=epsilon.mlir", "reference=vmvx", "threads=1")

    alike = project.doit(*words, "flags=--iree-input-demote-f64-to-f32=true")
    assert alike.code == 0 and said(alike) is None, str(alike)
    plain = project.doit(*words)
    assert plain.code == 1 and said(plain).startswith("the reference, module on vmvx: compile failed"), str(plain)


THIRDS = """\
func.func @main(%x: tensor<4x8xf64>, %s: f64) -> (tensor<4x8xf64>, f64) {
  %three = arith.constant dense<3.0> : tensor<4x8xf64>
  %z = arith.divf %x, %three : tensor<4x8xf64>
  %t = arith.addf %s, %s : f64
  return %z, %t : tensor<4x8xf64>, f64
}
"""


def test_f64_of_the_function_s_own_types_is_demoted_with_the_rest(tmp_path):
    project = Project.make(tmp_path)
    (tmp_path / "thirds.mlir").write_text(THIRDS)
    wide = X.astype("f8")
    arrays = {"x": X, "z": X / np.float32(3), "far": X / np.float32(2.9), "wide": wide, "wide_z": wide / 3}
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)

    def verify(*words):
        demoted = "flags=--iree-input-demote-f64-to-f32=true"
        return project.doit("verify", "file=thirds.mlir", "threads=1", demoted, *words)

    for right in (("inputs=@x.npy;0.5", "expected=z.npy;1"), ("inputs=4x8xf32;0.5", "reference=vmvx")):
        outcome = verify(*right)
        assert outcome.code == 0 and said(outcome) is None, str(outcome)
    assert said(verify("inputs=@x.npy;0.5", "expected=far.npy;1")).startswith(
        "31 elements of result 0 are wrong; worst"
    )
    why = "; the case's --iree-input-demote-f64-to-f32=true makes f64 f32, also in the function's types"
    refused = verify("inputs=@wide.npy;0.5", "expected=z.npy;1")
    assert said(refused) == f"input 0: wide.npy is 4x8xf64, the function takes 4x8xf32{why}"
    refused = verify("inputs=@x.npy;0.5", "expected=wide_z.npy;1")
    holds = "wide_z.npy holds float64 of shape (4, 8); the function gives 4x8xf32"
    assert said(refused) == f"expected result 0: {holds}{why}"
    plain = project.doit("verify", "file=thirds.mlir", "threads=1", "inputs=@wide.npy;0.5", "expected=wide_z.npy;1")
    assert plain.code == 0 and said(plain) is None, str(plain)


ROWS = """\
func.func @main(%x: tensor<?x?xf32>, %g: tensor<?xf32>) -> tensor<?x?xf32> {
  %y = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m)>, affine_map<(m, n) -> (m, n)>],
    iterator_types = ["parallel", "parallel"]} ins(%g : tensor<?xf32>) outs(%x : tensor<?x?xf32>) {
  ^bb0(%b: f32, %a: f32):
    %p = arith.mulf %a, %b : f32
    linalg.yield %p : f32
  } -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}
"""


def test_rows_of_a_small_scale_are_judged_by_their_own_where_both_sizes_are_dynamic(tmp_path):
    project = Project.make(tmp_path)
    (tmp_path / "rows.mlir").write_text(ROWS)
    x, gains = np.random.default_rng(3).uniform(-1, 1, (128, 256)), np.where(np.arange(128) % 5 < 3, 1.0, 1e-6)
    for name, array in {"x": x, "lost": np.where(gains == 1, gains, 0), "y": x * gains[:, None]}.items():
        np.save(tmp_path / f"{name}.npy", array.astype("float32"))
    outcome = project.doit("verify", "file=rows.mlir", "inputs=@x.npy;@lost.npy", "expected=y.npy", "threads=1")
    assert "of result 0 are off by more than rtol allows for their size" in said(outcome)
