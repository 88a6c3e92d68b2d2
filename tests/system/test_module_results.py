"""Users' modules with odd function names, several results or buffer views are called and compared.

The tile configuration that a module or a tuning requests must be applied."""

import re

import numpy as np
import pytest
from support.module_operand import X
from support.project import Project

pytest_plugins = ["support.project"]
pytestmark = pytest.mark.iree


def test_a_function_is_called_by_its_name_without_the_escapes_of_mlir(tmp_path):
    project = Project.make(tmp_path)
    body = "(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %0 = arith.addf %x, %x : tensor<4xf32>\n  return %0 : tensor<4xf32>\n}"
    (tmp_path / "odd.mlir").write_text(f'func.func @"é\\22\\1B[31m\\01"{body}\nfunc.func @main{body}\n')
    words = ("file=odd.mlir", 'function=é"\x1b[31m\1', "inputs=4xf32", "reference=vmvx", "threads=1", "protocol=fast")
    outcome = project.doit(*words)
    assert outcome.code == 0, str(outcome)
    (row,) = project.rows()
    assert (row["case"], row["verification"]) == ("module_odd_é---31m-_default@llvm-cpu-1t", "within bound")
    assert row["dispatches"] == ['é"\x1b[31m\1_dispatch_0_elementwise_4_f32']
    assert row["dispatch_medians_ns"][0] > 0
    explained = project.doit("explain", "profile:*", *words).out
    assert 'é"\\x01_dispatch_0' in explained and not {"\x1b", "\1"} & set(explained)


PAIR = """\
func.func @twice(%x: tensor<?x8xf32>, %n: i32) -> (tensor<?x8xf32>, i32) {
  %zero = arith.constant 0 : i32
  %positive = arith.cmpi sgt, %n, %zero : i32
  cf.assert %positive, "n is to be positive"
  %0 = arith.addf %x, %x : tensor<?x8xf32>
  return %0, %n : tensor<?x8xf32>, i32
}
func.func @number(%n: i32) -> i32 {
  return %n : i32
}
"""


def test_each_of_several_results_is_compared_whatever_its_size(tmp_path):
    project = Project.make(tmp_path)
    (tmp_path / "pair.mlir").write_text(PAIR)
    for name, array in {"x": X, "y": X * 2, "flat": X.ravel() * 2, "inf": np.full_like(X, np.inf)}.items():
        np.save(tmp_path / f"{name}.npy", array)

    def verify(*words):
        return project.doit("verify", "file=pair.mlir", "threads=1", *words)

    def of(n, expected):
        return verify("function=twice", f"inputs=@x.npy;{n}", f"expected={expected}.npy", "rtol=1e-3", "name=n")

    assert of(5, "y").code == 0
    assert "32 elements of result 0 are wrong" in of(5, "inf").out
    assert "holds float32 of shape (32,); the function gives ?x8xf32" in of(5, "flat").out
    assert "run failed: FAILED_PRECONDITION; n is to be positive\n" in of(-1, "y").out
    assert verify("function=twice", "inputs=0x8xf32;5", "reference=vmvx").code == 0
    for made in ("1 verified", "up to date"):  # also printed for a reused verdict
        outcome = verify("function=number", "inputs=5")
        assert outcome.code == 0 and made in outcome.out, str(outcome)
        assert (
            "not compared, because there is nothing to compare with: module_pair_number_default@llvm-cpu-1t; give expected="
            in outcome.out
        )
    of_empty, of_number = project.query("select facts from record where stage = 'verify' order by id")[-2:]
    assert '"verification": "equal"' in of_empty[0]
    assert '"verification": "not compared"' in of_number[0]
    for words, found in {
        "reference=vmvx": "1 verified",
        "expected=5": "up to date",
        "expected=6": "got 5, expected 6",
    }.items():
        assert found in verify("function=number", "inputs=5", words).out


CONFIGURED = """\
// compilation_info = #iree_cpu.lowering_config<distribution = [1, 1, 1]> is only a comment
#config = #iree_cpu.lowering_config<distribution = [16, 16, 0], vector_common_parallel = [4, 16, 0], \
vector_reduction = [0, 0, 2]>
#translation = #iree_codegen.translation_info<pipeline = #iree_cpu.pipeline<DoubleTilingExpert>>
#compilation = #iree_codegen.compilation_info<lowering_config = #config, translation_info = #translation>
func.func @main(%a: tensor<32x32xf32>, %b: tensor<32x32xf32>) -> tensor<32x32xf32> {{
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<32x32xf32>
  %f = linalg.fill ins(%c : f32) outs(%e : tensor<32x32xf32>) -> tensor<32x32xf32>
  %r = linalg.matmul {{{word} = #compilation}} ins(%a, %b : tensor<32x32xf32>, tensor<32x32xf32>)
    outs(%f : tensor<32x32xf32>) -> tensor<32x32xf32>
  return %r : tensor<32x32xf32>
}}
"""


PRODUCT = """\
  %e{n} = tensor.empty() : tensor<{rows}x32xf32>
  %f{n} = linalg.fill ins(%c : f32) outs(%e{n} : tensor<{rows}x32xf32>) -> tensor<{rows}x32xf32>
  %r{n} = linalg.generic {{indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, \
affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]{asks}}} \
ins({lhs}, %b : tensor<{rows}x32xf32>, tensor<32x32xf32>) outs(%f{n} : tensor<{rows}x32xf32>) {{
  ^bb0(%x: f32, %y: f32, %z: f32):
    %p = arith.mulf %x, %y : f32
    %q = arith.addf %p, %z : f32
    linalg.yield %q : f32
  }} -> tensor<{rows}x32xf32>
"""


def three_products(rows):
    """Return a module of three matrix products; the first two request the same tile configuration.

    The left operand of the second product has `rows` rows. The left operands of the first and the third have 32."""
    asks, types = ", compilation_info = #compilation", f"tensor<32x32xf32>, tensor<{rows}x32xf32>, tensor<32x32xf32>"
    body = (
        PRODUCT.format(n=0, lhs="%a", rows=32, asks=asks)
        + PRODUCT.format(n=1, lhs="%v", rows=rows, asks=asks)
        + PRODUCT.format(n=2, lhs="%b", rows=32, asks="")
    )
    return (
        CONFIGURED.partition("func.func")[0]
        + f"func.func @main(%a: tensor<32x32xf32>, %b: tensor<32x32xf32>, %v: tensor<{rows}x32xf32>) -> ({types}) {{\n"
        + f"  %c = arith.constant 0.0 : f32\n{body}  return %r0, %r1, %r2 : {types}\n}}\n"
    )


def test_a_configuration_of_the_module_s_own_must_be_applied(tmp_path):
    project = Project.make(tmp_path, "")
    (tmp_path / "asked.mlir").write_text(CONFIGURED.format(word="compilation_info"))
    (tmp_path / "misspelt.mlir").write_text(CONFIGURED.format(word="compilation_inf0"))
    # The compiler merges two equal dispatches into one. It does not treat a product with one row as a matrix product,
    # and drops the configuration that the module requests for it.
    (tmp_path / "merged.mlir").write_text(three_products(rows=32))
    (tmp_path / "lost.mlir").write_text(three_products(rows=1))
    outcome = project.doit("compile", "file=asked.mlir,misspelt.mlir,merged.mlir,lost.mlir", "threads=1")
    asked = "DoubleTilingExpert and distribution = [16, 16, 0], vector_common_parallel = [4, 16, 0], vector_reduction = [0, 0, 2]"
    assert outcome.code == 1
    assert f"configuration ignored: the module asks for {asked}; applied DoubleTilingExpert" in outcome.out
    assert f"asks for {asked} for 2 operations, of which 1 got it; applied" in outcome.out
    assert re.findall(r"module_(\w+)_main_default@llvm-cpu-1t FAILED", outcome.out) == ["misspelt", "lost"], outcome
    for name in ("asked", "misspelt", "merged", "lost"):
        said = (tmp_path / f"build/module_{name}_main_default@llvm-cpu-1t/case.txt").read_text()
        assert f"requested      {asked}\n" in said


PLAIN = """\
func.func @main(%a: tensor<32x32xf32>) -> tensor<32x32xf32> {{
  %c = arith.constant dense<0.0> : tensor<32x32xf32>
  %r = {op} ins(%a, %a : tensor<32x32xf32>, tensor<32x32xf32>) outs(%c : tensor<32x32xf32>) -> tensor<32x32xf32>
  return %r : tensor<32x32xf32>
}}
"""


def test_a_tuning_that_did_nothing_to_a_module_is_a_failure(tmp_path):
    project = Project.make(tmp_path, "")
    for name, op in {"product": "linalg.matmul", "sum": "linalg.elementwise <add>"}.items():
        (tmp_path / f"{name}.mlir").write_text(PLAIN.format(op=op))
    words = ("file=product.mlir,sum.mlir", "tuning=default,data_tiling,split_k_4", "threads=1")

    outcome = project.doit("compile", *words)

    assert outcome.code == 1
    failed = re.findall(r"(\S+) FAILED: configuration ignored: ", outcome.out)
    assert sorted(failed) == [f"module_sum_main_{tuning}@llvm-cpu-1t" for tuning in ("data_tiling", "split_k_4")]
    requested = (tmp_path / "build/module_product_main_data_tiling@llvm-cpu-1t/case.txt").read_text()
    assert "requested      --iree-opt-data-tiling\n" in requested


BUFFERS = """\
util.func public @main(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view) -> !hal.buffer_view {
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<4x8xf32>
  %1 = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<4x8xf32>
  %2 = arith.addf %0, %1 : tensor<4x8xf32>
  %3 = hal.tensor.export %2 "output0" : tensor<4x8xf32> -> !hal.buffer_view
  util.return %3 : !hal.buffer_view
}
"""


def test_a_function_of_buffer_views_takes_tensors_whose_type_is_given(tmp_path):
    project = Project.make(tmp_path)
    (tmp_path / "views.mlir").write_text(BUFFERS)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", X + 2)
    words = ("file=views.mlir", "threads=1", "protocol=fast")

    right = project.doit(*words, "inputs=@x.npy;4x8xf32=2", "expected=y.npy")
    assert right.code == 0, right
    (row,) = project.rows()
    assert row["verification"] == "within bound" and row["median_ns"] > 0
    off = project.doit("verify", *words, "inputs=@x.npy;4x8xf32=3", "expected=y.npy", "name=off")
    assert off.code == 1 and re.search(r": 32 elements of result 0 are wrong; worst at \[1, 6\]: got 1\.0, ", off.out)
    assert "give one, inputs = " in project.doit("verify", *words, "name=untold").out
