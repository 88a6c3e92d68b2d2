"""The operands and results of a program's sites are captured with the real compiler and runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import lavapipe
from support.project import REPOSITORY

from dispatchflow.cli import variables
from dispatchflow.engine import capture
from dispatchflow.errors import SpecError
from dispatchflow.models.captured import Capture
from dispatchflow.project.workspace import Workspace
from dispatchflow.store.entries import Record

pytestmark = pytest.mark.iree

CHAIN = """
func.func @main(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
  %a = linalg.matmul ins(%x, %w : tensor<8x8xf32>, tensor<8x8xf32>) outs(%f : tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = linalg.matmul ins(%a, %w : tensor<8x8xf32>, tensor<8x8xf32>) outs(%f : tensor<8x8xf32>) -> tensor<8x8xf32>
  return %b : tensor<8x8xf32>
}"""
LOOP = """
func.func @main(%x: tensor<8x8xf32>, %n: i32) -> tensor<8x8xf32> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %r:2 = scf.while (%a = %x, %i = %c0) : (tensor<8x8xf32>, i32) -> (tensor<8x8xf32>, i32) {
    %lt = arith.cmpi slt, %i, %n : i32
    scf.condition(%lt) %a, %i : tensor<8x8xf32>, i32
  } do {
  ^bb0(%a: tensor<8x8xf32>, %i: i32):
    %f = linalg.fill ins(%z : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
    %m = linalg.matmul ins(%a, %x : tensor<8x8xf32>, tensor<8x8xf32>) outs(%f : tensor<8x8xf32>) -> tensor<8x8xf32>
    %j = arith.addi %i, %c1 : i32
    scf.yield %m, %j : tensor<8x8xf32>, i32
  }
  return %r#0 : tensor<8x8xf32>
}"""
DYNAMIC = """
func.func @main(%x: tensor<?x8xf32>, %w: tensor<8x?xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant 0.0 : f32
  %m = tensor.dim %x, %c0 : tensor<?x8xf32>
  %n = tensor.dim %w, %c1 : tensor<8x?xf32>
  %e = tensor.empty(%m, %n) : tensor<?x?xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
  %a = linalg.matmul ins(%x, %w : tensor<?x8xf32>, tensor<8x?xf32>) outs(%f : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %a : tensor<?x?xf32>
}"""
STATE = """
util.global private mutable @s : tensor<4x8xf32>
util.initializer {
  %x = util.unfoldable_constant dense<0.5> : tensor<4x8xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %a = linalg.elementwise <tanh> ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  util.global.store %a, @s : tensor<4x8xf32>
  util.return
}
func.func @main(%row: tensor<1x8xf32>, %at: tensor<i32>) -> tensor<4x8xf32> {
  %i = tensor.extract %at[] : tensor<i32>
  %ix = arith.index_cast %i : i32 to index
  %s = util.global.load @s : tensor<4x8xf32>
  %e1 = tensor.empty() : tensor<1x8xf32>
  %v = linalg.elementwise <exp> ins(%row : tensor<1x8xf32>) outs(%e1 : tensor<1x8xf32>) -> tensor<1x8xf32>
  %u = tensor.insert_slice %v into %s[%ix, 0] [1, 8] [1, 1] : tensor<1x8xf32> into tensor<4x8xf32>
  util.global.store %u, @s : tensor<4x8xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %o = linalg.elementwise <tanh> ins(%u : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %o : tensor<4x8xf32>
}"""
UNDEFINED = """
func.func @main(%x: tensor<8x32xf32>) -> tensor<8x32xf32> {
  %e = tensor.empty() : tensor<9x32xf32>
  %u = tensor.insert_slice %x into %e[1, 0] [8, 32] [1, 1] : tensor<8x32xf32> into tensor<9x32xf32>
  %b = util.optimization_barrier %u : tensor<9x32xf32>
  %g = tensor.empty() : tensor<9x32xf32>
  %w = linalg.elementwise <tanh> ins(%b : tensor<9x32xf32>) outs(%g : tensor<9x32xf32>) -> tensor<9x32xf32>
  %c = util.optimization_barrier %w : tensor<9x32xf32>
  %s = tensor.extract_slice %c[1, 0] [8, 32] [1, 1] : tensor<9x32xf32> to tensor<8x32xf32>
  return %s : tensor<8x32xf32>
}"""
UNWRITTEN = """
func.func @main(%x: tensor<8xf32>) -> tensor<16xf32> {
  %e = tensor.empty() : tensor<16xf32>
  %v = tensor.empty() : tensor<8xf32>
  %a = linalg.elementwise <exp> ins(%x : tensor<8xf32>) outs(%v : tensor<8xf32>) -> tensor<8xf32>
  %u = tensor.insert_slice %a into %e[0] [8] [1] : tensor<8xf32> into tensor<16xf32>
  return %u : tensor<16xf32>
}"""

HALVES = """
func.func @main(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) -> tensor<4x8x2xf32> {
  %e = tensor.empty() : tensor<4x8x2xf32>
  %v = tensor.empty() : tensor<4x8xf32>
  %f = linalg.elementwise <exp> ins(%a : tensor<4x8xf32>) outs(%v : tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = linalg.elementwise <tanh> ins(%b : tensor<4x8xf32>) outs(%v : tensor<4x8xf32>) -> tensor<4x8xf32>
  %x = util.optimization_barrier %f : tensor<4x8xf32>
  %y = util.optimization_barrier %g : tensor<4x8xf32>
  %u = tensor.insert_slice %x into %e[0, 0, 0] [4, 8, 1] [1, 1, 1] : tensor<4x8xf32> into tensor<4x8x2xf32>
  %w = tensor.insert_slice %y into %u[0, 0, 1] [4, 8, 1] [1, 1, 1] : tensor<4x8xf32> into tensor<4x8x2xf32>
  return %w : tensor<4x8x2xf32>
}"""

ROWS = """
func.func @main(%x: tensor<?x8xf32>) -> tensor<1x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c0 : tensor<?x8xf32>
  %s = arith.constant dense<0.0> : tensor<1x8xf32>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %s) -> (tensor<1x8xf32>) {
    %v = tensor.extract_slice %x[%i, 0] [1, 8] [1, 1] : tensor<?x8xf32> to tensor<1x8xf32>
    %e = arith.addf %a, %v : tensor<1x8xf32>
    %t = math.tanh %e : tensor<1x8xf32>
    scf.yield %t : tensor<1x8xf32>
  }
  return %r : tensor<1x8xf32>
}"""


class Captured:
    """The captured operands and results of a case's sites, as arrays.

    For example, `captured["2.in0"]` is the first operand of site 2, and `captured["2.out0"]` is its first result."""

    def __init__(self, workspace: Workspace, record: Record | None) -> None:
        assert record is not None
        self.workspace, self.record = workspace, record

    @property
    def capture(self) -> Capture:
        assert self.record.ok, self.record.reason
        return capture.capture_of(self.record)

    @property
    def types(self) -> dict[str, str]:
        return {tensor.name: tensor.type for tensor in self.capture.tensors}

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        content = self.workspace.store.checked(self.record.outputs[name]).read_bytes()
        if name.endswith(".undefined"):
            return np.frombuffer(content, np.uint8)
        type_ = self.types[name]
        if "x" not in type_.removeprefix("index"):
            return np.frombuffer(content, "i8" if type_ == "index" else "i4")
        *sizes, element = type_.split("x")
        assert element == "f32"
        return np.frombuffer(content, "f4").reshape(list(map(int, sizes)))


def captured(folder: Path, text: str | None, sites: Any = None, execution: int | None = None, limit: int = 2**20,
             **words: str) -> Captured:  # fmt: skip
    folder.mkdir(exist_ok=True)
    if text is not None:
        (folder / "net.mlir").write_text(text)
        words |= {"file": str(folder / "net.mlir")}
    values = variables.parse({"threads": "1", **words}, ("cases", "run"))
    workspace = Workspace(folder, values)
    (case,) = workspace.plan.cases
    return Captured(workspace, capture.of_case(workspace.executor, case, sites, execution, limit))


def check_chain(found: Captured) -> None:
    assert found.capture.executions == {"1": 1, "2": 1}
    assert not found.capture.missing
    assert found["1.out0"].tobytes() == found["2.in0"].tobytes()
    assert found["1.in1"].tobytes() == found["2.in1"].tobytes()
    for site in "12":
        got, expected = found[f"{site}.out0"], found[f"{site}.in0"] @ found[f"{site}.in1"]
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", ["llvm-cpu", "vmvx"])
def test_the_result_of_a_site_is_the_operand_of_the_next(target: str, tmp_path: Path) -> None:
    found = captured(tmp_path, CHAIN, inputs="8x8xf32;8x8xf32", target=target)
    check_chain(found)
    assert found.capture.nbytes == found.record.facts["bytes"] == 6 * 256
    again = captured(tmp_path, CHAIN, inputs="8x8xf32;8x8xf32", target=target)
    assert again.record.at == found.record.at  # taken from the store, not captured again
    one = captured(tmp_path, CHAIN, [2], inputs="8x8xf32;8x8xf32", target=target)
    assert one["2.in0"].tobytes() == found["2.in0"].tobytes()
    assert {tensor.site for tensor in one.capture.tensors} == {2}
    with pytest.raises(SpecError, match="there is no site 5"):
        captured(tmp_path, CHAIN, [1, 5], inputs="8x8xf32;8x8xf32", target=target)


def test_a_vulkan_device_captures_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        driver = lavapipe.environment(REPOSITORY / ".lavapipe")
    except lavapipe.Unavailable as error:
        pytest.skip(f"no Vulkan here: {error}")
    for name, value in driver.items():
        monkeypatch.setenv(name, value)
    check_chain(captured(tmp_path, CHAIN, inputs="8x8xf32;8x8xf32", target="vulkan"))


def test_a_site_in_a_loop_is_captured_in_the_last_execution_or_in_the_chosen_one(tmp_path: Path) -> None:
    last = captured(tmp_path, LOOP, inputs="8x8xf32;3")
    assert last.capture.executions == {"1": 3}
    x = last["1.in1"]
    np.testing.assert_allclose(last["1.in0"], x @ x @ x, rtol=1e-4, atol=1e-4)
    first = captured(tmp_path, LOOP, execution=1, inputs="8x8xf32;3")
    assert first["1.in0"].tobytes() == x.tobytes()
    np.testing.assert_allclose(first["1.out0"], x @ x, rtol=1e-4, atol=1e-4)
    none = captured(tmp_path, LOOP, inputs="8x8xf32;0")
    assert [each.reason for each in none.capture.missing] == ["it is not executed in this call"]


def test_dynamic_sizes_are_those_of_the_call(tmp_path: Path) -> None:
    found = captured(tmp_path, DYNAMIC, inputs="5x8xf32;8x7xf32")
    assert list(found.types.values()) == ["5x8xf32", "8x7xf32", "index", "index", "5x7xf32"]
    assert [found["1.in2"].tolist(), found["1.in3"].tolist()] == [[5], [7]]
    np.testing.assert_allclose(found["1.out0"], found["1.in0"] @ found["1.in1"], rtol=1e-4, atol=1e-4)
    refused = captured(tmp_path, DYNAMIC, execution=1, limit=100, inputs="5x8xf32;8x7xf32").record
    assert refused.reason is not None
    assert "more than limit=100 B" in refused.reason


def test_sites_at_load_and_operands_that_are_overwritten_in_place_are_captured(tmp_path: Path) -> None:
    found = captured(tmp_path, STATE, inputs="1x8xf32;i32=2")
    assert not found.capture.missing
    at_load, before, after = found["1.out0"], found["3.in2"], found["3.out0"]
    np.testing.assert_allclose(at_load, np.full(32, np.tanh(0.5)), rtol=1e-5)
    assert before.tobytes() == at_load.tobytes()
    assert (after[[0, 1, 3]] == before[[0, 1, 3]]).all()
    assert after[2].tobytes() == found["2.out0"].tobytes()
    assert found.types["3.in0"] == "tensor<i32>"
    assert found["3.in0"].tolist() == [2]
    np.testing.assert_allclose(found["4.out0"], np.tanh(after.reshape(-1)), rtol=1e-5)


def test_a_result_that_the_next_site_overwrites_is_captured_as_it_was_before(tmp_path: Path) -> None:
    found = captured(tmp_path / "p", HALVES)
    first, second = (
        site for site in range(1, 5) if f"{site}.in1" in found.types and found.types[f"{site}.out0"] == "4x8x2xf32"
    )
    assert found[f"{first}.out0"][..., 0].all() and not found[f"{first}.out0"][..., 1].any()
    assert (found[f"{second}.in1"] == found[f"{first}.out0"]).all()
    assert found[f"{second}.out0"].all()


@pytest.mark.parametrize("execution", [None, 2])
def test_numbers_of_a_loop_are_those_of_the_execution(execution: int | None, tmp_path: Path) -> None:
    found = captured(tmp_path / "p", ROWS, execution=execution, inputs="5x8xf32")
    numbers = {name: int(found[name][0]) for name, type_ in found.types.items() if type_ == "index"}
    row = 4 if execution is None else execution - 1
    assert sorted(set(numbers.values())) == sorted({row, 5}) and found.capture.executions == {"1": 5}


def test_elements_that_depend_on_undefined_ones_are_marked(tmp_path: Path) -> None:
    found = captured(tmp_path, UNDEFINED, inputs="8x32xf32")
    (operand, result) = [tensor.name for tensor in found.capture.tensors]
    for name in (operand, result):
        assert found[f"{name}.undefined"].tolist() == [1] * 32 + [0] * 256
    np.testing.assert_allclose(found[result], np.tanh(found[operand]), rtol=1e-5)


def test_a_program_whose_calls_differ_is_refused(tmp_path: Path) -> None:
    found = captured(tmp_path, UNWRITTEN, inputs="8xf32").record
    assert not found.ok
    assert found.reason == (
        "not captured: the program's result 0 differs from call to call (a race, or memory that was never written)"
    )


def test_an_operation_is_captured_with_the_inputs_of_its_first_recipe(tmp_path: Path) -> None:
    words = {"operation": "elementwise", "m": "8", "n": "8", "dtype": "f32"}
    found = captured(tmp_path, None, **words)
    assert found.capture.tensors
    refused = captured(tmp_path, None, execution=1, limit=100, **words).record
    assert refused.reason is not None
    assert "choose fewer sites" in refused.reason
