"""A result is reported if it depends on memory that was never written, or differs between equal calls."""

import re

import numpy as np
import pytest
from support.project import Project, sweep
from support.tools import toolchain

from dispatchflow.engine import verify
from dispatchflow.engine.actions import Data
from dispatchflow.iree.targets import TARGETS
from dispatchflow.operations import OPERATIONS
from dispatchflow.project.workspace import Workspace

pytest_plugins = ["support.project"]
pytestmark = pytest.mark.iree

NOTHING = """\
func.func @main(%a: tensor<33x40xf32>) -> tensor<33x40xf32> {
  %u = tensor.empty() : tensor<33x40xf32>
  return %u : tensor<33x40xf32>
}
"""
BUT_A_ROW = """\
func.func @main(%a: tensor<33x40x{type}>) -> tensor<33x40x{type}> {{
  %u = tensor.empty() : tensor<33x40x{type}>
  %s = tensor.extract_slice %a[0, 0] [32, 40] [1, 1] : tensor<33x40x{type}> to tensor<32x40x{type}>
  %b = {op} %s, %s : tensor<32x40x{type}>
  %r = tensor.insert_slice %b into %u[0, 0] [32, 40] [1, 1] : tensor<32x40x{type}> into tensor<33x40x{type}>
  return %r : tensor<33x40x{type}>
}}
"""
# Each workgroup adds 256 elements to the same 256 elements of the result, without an atomic.
RACE = """\
func.func @main(%x: tensor<262144xf32>) -> tensor<256xf32> {
  %zero = arith.constant dense<0.0> : tensor<256xf32>
  %y = flow.dispatch.workgroups[](%x, %zero) : (tensor<262144xf32>, tensor<256xf32>) -> %zero =
      (%in: !iree_tensor_ext.dispatch.tensor<readonly:tensor<262144xf32>>, %acc: !iree_tensor_ext.dispatch.tensor<readwrite:tensor<256xf32>>) {
    %id = flow.dispatch.workgroup.id[0] : index
    %part = iree_tensor_ext.dispatch.tensor.load %in, offsets = [%id], sizes = [256], strides = [1] : !iree_tensor_ext.dispatch.tensor<readonly:tensor<262144xf32>> -> tensor<256xf32>
    %old = iree_tensor_ext.dispatch.tensor.load %acc, offsets = [0], sizes = [256], strides = [1] : !iree_tensor_ext.dispatch.tensor<readwrite:tensor<256xf32>> -> tensor<256xf32>
    %new = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%part : tensor<256xf32>) outs(%old : tensor<256xf32>) {
    ^bb0(%a: f32, %b: f32):
      %s = arith.addf %a, %b : f32
      linalg.yield %s : f32
    } -> tensor<256xf32>
    iree_tensor_ext.dispatch.tensor.store %new, %acc, offsets = [0], sizes = [256], strides = [1] : tensor<256xf32> -> !iree_tensor_ext.dispatch.tensor<readwrite:tensor<256xf32>>
    flow.return
  } count() -> (index, index, index) {
    %c1 = arith.constant 1 : index
    %n = arith.constant 200000 : index
    %m = arith.constant 20 : index
    flow.return %n, %m, %c1 : index, index, index
  }
  return %y : tensor<256xf32>
}
"""
# Memory that nobody wrote holds zeros in a new process, and 0xCD from the debug allocator.
ZEROS = np.concatenate([np.full((32, 40), 2), np.zeros((1, 40))])
POISON = np.concatenate([np.full((32, 40), 2, "i1"), np.full((1, 40), 0xCD, "u1").view("i1")])
ONCE = sweep(operation="module", file=["u.mlir", "f.mlir"], m=None, n=None, k=None, threads=[1, 2])
GIVEN = sweep(
    operation="module",
    file="f.mlir",
    name="zeros",
    inputs="33x40xf32=1",
    expected="zeros.bin",
    m=None,
    n=None,
    k=None,
    threads=[1, 2],
)
AS_POISON = sweep(
    operation="module",
    file="i.mlir",
    inputs="33x40xi8=1",
    expected="poison.bin",
    m=None,
    n=None,
    k=None,
    threads=[1, 2],
)
REFERENCE = sweep(
    operation="module", file=["u.mlir", "f.mlir"], name="{}", reference="vmvx", m=None, n=None, k=None, threads=[1, 2]
)


def test_unwritten_result_of_a_module_is_reported_with_a_reference_with_expected_results_and_with_neither(tmp_path):
    spec = ONCE + GIVEN + AS_POISON
    spec += REFERENCE.replace('["u.mlir", "f.mlir"]', '"u.mlir"').replace("{}", "nothing")
    spec += REFERENCE.replace('["u.mlir", "f.mlir"]', '"f.mlir"').replace("{}", "row")
    project = Project.make(tmp_path, spec)
    folder = tmp_path / "specs"
    (folder / "u.mlir").write_text(NOTHING)
    (folder / "f.mlir").write_text(BUT_A_ROW.format(type="f32", op="arith.addf"))
    (folder / "i.mlir").write_text(BUT_A_ROW.format(type="i8", op="arith.addi"))
    (folder / "zeros.bin").write_bytes(ZEROS.astype("float32").tobytes())
    (folder / "poison.bin").write_bytes(POISON.tobytes())

    outcome = project.doit("profile")

    rows = {row["case"]: row for row in project.rows()}
    assert outcome.code == 1 and len(rows) == 12
    for case, row in rows.items():
        count, place = ("1,320", "0, 0") if "_u_" in case or "nothing" in case else ("40", "32, 0")
        assert row["status"] == "failed" and row["median_ns"] is None
        found = f"{count} elements of result 0 depend on memory that was never written; the first at [{place}]: "
        assert found in row["reason"], row
        reference = row["reason"].startswith("the reference, module on vmvx: ")
        assert reference == ("nothing" in case or "row" in case)
        assert row["verification"] == ("not compared" if reference else "different")
    assert rows["module_i_main_default@llvm-cpu-1t"]["worst_expected"] == "-51"


NUMBER = """\
func.func @main(%a: tensor<8xf32>, %i: index) -> (tensor<8xf32>, f32) {
  %u = tensor.empty() : tensor<16xf32>
  %n = arith.negf %a : tensor<8xf32>
  %w = tensor.insert_slice %n into %u[0] [8] [1] : tensor<8xf32> into tensor<16xf32>
  %x = tensor.extract %w[%i] : tensor<16xf32>
  return %a, %x : tensor<8xf32>, f32
}
"""


def test_unwritten_bare_number_is_reported_although_it_is_right(tmp_path):
    project = Project.make(tmp_path)
    (tmp_path / "n.mlir").write_text(NUMBER)
    (tmp_path / "ones.bin").write_bytes(np.ones(8, "float32").tobytes())

    outcome = project.doit("verify", "file=n.mlir", "inputs=8xf32=1;12", "expected=ones.bin;0", "threads=1")

    assert outcome.code == 1
    assert "FAILED: result 1 depends on memory that was never written; 0.0, -4.3160208e+08 where it" in outcome.out


def test_result_that_differs_between_calls_is_mistrusted_if_all_are_right_and_wrong_if_one_is_wrong(tmp_path):
    # A wrapper of the tool writes its call count into the result. With rtol=1 all results are right.
    spec = sweep(
        operation="module", file="f.mlir", inputs="33x40xf32=1", expected="twos.bin", rtol=1.0, m=None, n=None, k=None
    )
    project = Project.make(tmp_path / "project", spec + spec.replace("rtol = 1.0", 'name = "strict"'))
    folder = tmp_path / "project/specs"
    (folder / "f.mlir").write_text(
        BUT_A_ROW.format(type="f32", op="arith.addf").replace("32", "33").replace("f33", "f32")
    )
    (folder / "twos.bin").write_bytes(np.full((33, 40), 2, "float32").tobytes())
    count = tmp_path / "count"
    counts = f"""\
$real "$@" || exit 1
for word in "$@"; do case $word in --output=@*) out=${{word#--output=@}}; esac; done
test -n "$out" || exit 0
echo >> {count}
printf "\\\\$(printf %o $(wc -l < {count}))" | dd of=$out bs=1 seek=5278 conv=notrunc 2> /dev/null"""

    outcome = project.doit("verify", PYTHONPATH=toolchain(tmp_path / "tools", iree_run_module=counts))

    assert outcome.code == 1, str(outcome)
    why = r"not deterministic: equal calls differ in 1 element of result 0; the first at \[32, 39\]: 2\.0\d+, then 2\.0\d+"
    assert re.search(
        f"verify module_strict_main_default@llvm-cpu-1t FAILED: {why}; 1 element of result 0 is wrong", outcome.out
    )
    assert "module_f_main_default@llvm-cpu-1t FAILED" not in outcome.out
    assert re.search(f"^mistrusted: module_f_main_default@llvm-cpu-1t: {why}$", outcome.out, re.MULTILINE)


UNTURNED = """\
func.func @main(%a: tensor<33x40xi8>) -> tensor<40x33xi8> {
  %u = tensor.empty() : tensor<40x33xi8>
  %s = tensor.extract_slice %a[0, 0] [33, 39] [1, 1] : tensor<33x40xi8> to tensor<33x39xi8>
  %e = tensor.empty() : tensor<39x33xi8>
  %t = linalg.transpose ins(%s : tensor<33x39xi8>) outs(%e : tensor<39x33xi8>) permutation = [1, 0]
  %r = tensor.insert_slice %t into %u[0, 0] [39, 33] [1, 1] : tensor<39x33xi8> into tensor<40x33xi8>
  return %r : tensor<40x33xi8>
}
"""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("there", [0, -51], ids=["zero", "poison"])
def test_unwritten_result_of_an_operation_is_reported_although_the_memory_is_right(tmp_path, threads, there):
    workspace = Workspace(tmp_path, {})
    turn = OPERATIONS["transpose"]
    operation = turn((33, 40), turn.signatures["i8"], "t", ())
    flags = TARGETS["llvm-cpu"].resolved_flags(workspace.resolver.host, workspace.resolver.syntax)
    compiled = workspace.executor.compile_module(UNTURNED.encode(), flags)
    given = np.arange(33 * 40).reshape(33, 40).astype("i1")
    given[:, 39] = there
    inputs, expected = (workspace.store.put_bytes(np.ascontiguousarray(x).tobytes()) for x in (given, given.T))
    recipes = dict.fromkeys(operation.recipes, (inputs,))
    unseen = {"expected_unseen": (workspace.store.put_bytes(b""),)}
    data = Data({**recipes, **{f"expected_{name}": (expected,) for name in recipes}, **unseen}, ("33x40xi8",))
    device = workspace.device(TARGETS["llvm-cpu"], threads)
    with workspace.store.scratch() as scratch:
        place = workspace.executor.place(scratch, device, {"module.vmfb": compiled.outputs["vmfb"]})
        ok, reason, outputs, facts = verify.verify_operation(place, operation, data)
    assert not ok and facts["verification"] == "different"
    found = "33 elements of the random inputs' result depend on memory that was never written; the first at [39, 0]: "
    assert reason.startswith(f"{found}0, -51 where it held other bytes")
    assert {"got_random", "second_random"} <= set(outputs)


def test_a_race_of_two_threads_is_reported(tmp_path) -> None:
    words = {"file": "race.mlir", "inputs": "262144xf32=1", "expected": "y.bin", "threads": 2}
    project = Project.make(tmp_path, sweep(operation="module", m=None, n=None, k=None, **words))
    (tmp_path / "specs/race.mlir").write_text(RACE)
    (tmp_path / "specs/y.bin").write_bytes(np.full(256, 4_000_000, "float32").tobytes())
    outcome = project.doit("verify")
    told = r"not deterministic: equal calls differ in \d+ elements? of result 0"
    assert re.search(told, outcome.out), str(outcome)

    # On a busy machine the two threads may run one after the other in both calls of a verification.
    alone = ("operation=module", "file=specs/race.mlir", "threads=2", "verify")
    found = [project.doit(*alone, f"inputs=262144xf32={value}").out for value in (1, 2, 3)]
    assert any(re.search(f"not compared: .*{told}", text) for text in found), found
