"""`dispatchflow.run` measures compiled modules outside of a project. The tests use IREE's real tools."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.once import once
from support.project import NAME, Project
from support.tools import compiler_folder, toolchain
from support.weights import write_irpa

import dispatchflow
from dispatchflow.microbenchmark import Input, Invocation, run

pytestmark = pytest.mark.iree
pytest_plugins = ["support.project"]

MODULE = """
func.func @main(%a: tensor<16x16xf32>, %b: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<16x16xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<16x16xf32>) -> tensor<16x16xf32>
  %out = linalg.matmul ins(%a, %b : tensor<16x16xf32>, tensor<16x16xf32>) outs(%init : tensor<16x16xf32>)
    -> tensor<16x16xf32>
  return %out : tensor<16x16xf32>
}
func.func @boom(%a: tensor<?x4xbf16>, %n: i32) -> (tensor<?x4xbf16>, i32) {
  return %a, %n : tensor<?x4xbf16>, i32
}
"""
WEIGHTED = """
util.global private @w = #flow.parameter.named<"model"::"w"> : tensor<16x16xf32>
func.func @main(%a: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %w = util.global.load @w : tensor<16x16xf32>
  %out = arith.addf %a, %w : tensor<16x16xf32>
  return %out : tensor<16x16xf32>
}
"""
# The compiler's import writes no declaration of such a function.
IMPORTED = """
func.func @relu(%a: !torch.vtensor<[16,16],f32>) -> !torch.vtensor<[16,16],f32>
    attributes {torch.onnx_meta.ir_version = 8 : si64, torch.onnx_meta.opset_version = 17 : si64} {
  %out = torch.operator "onnx.Relu"(%a) : (!torch.vtensor<[16,16],f32>) -> !torch.vtensor<[16,16],f32>
  return %out : !torch.vtensor<[16,16],f32>
}
"""
A = np.arange(-128, 128, dtype=np.float32).reshape(16, 16) % 7
B = A.T.copy()
X = np.ones((3, 4), ml_dtypes.bfloat16)
CRASH = 'case "$*" in *--function=boom*) kill -SEGV $$;; esac\nexec "$real" "$@"'
HANG = 'case "$*" in *--function=boom*) exec sleep 60;; esac\nexec "$real" "$@"'


@pytest.fixture(scope="module")
def vmfb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(folder: Path) -> None:
        folder.mkdir()
        (folder / "m.mlir").write_text(MODULE)
        (folder / "weighted.mlir").write_text(WEIGHTED)
        (folder / "imported.mlir").write_text(IMPORTED)
        flags = ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu"]
        argv = [compiler_folder() / "iree-compile", *flags, "--iree-llvmcpu-target-cpu=host"]
        for name in ("m", "weighted", "imported"):
            subprocess.run([*argv, f"{name}.mlir", "-o", f"{name}.vmfb"], cwd=folder, check=True)

    return once(tmp_path_factory, "microbenchmark", make) / "m.vmfb"


def rows(*invocations: Invocation, **words: Any) -> list[dict[str, Any]]:
    return run(invocations, **words).to_pylist()


def test_each_dispatch_of_hot_and_cold_calls_has_its_times(vmfb: Path, tmp_path: Path) -> None:
    hot = Invocation("hot", vmfb, "main", [A, B], expected=[A @ B])
    cold = Invocation("cold", vmfb.read_bytes(), "main", [A, Input(B, cold=True)], expected=[A @ B])

    found = rows(hot, cold, trace=tmp_path / "traces")

    assert [(row["invocation"], row["status"]) for row in found] == [("hot", "measured"), ("cold", "measured")]
    for row in found:
        assert row["dispatch"].startswith("main_dispatch_0_matmul")
        assert row["verdict"] == "within bound" and row["reason"] is None
        assert row["executions"] == row["calls"] > 1 and len(row["workgroups"]) == 3
        assert 0 < row["p5_ns"] <= row["median_ns"] <= row["call_ns"] * 2 and row["total_ns"] >= row["executions"]
        assert row["median_ns"] / 100 < row["dispatch_ns"] <= row["call_ns"]  # one thread: a call contains its dispatch
    assert sorted(path.name for path in (tmp_path / "traces").iterdir()) == ["cold.ireeprof", "hot.ireeprof"]


def test_the_operands_of_an_imported_function_have_the_types_of_the_given_arrays(vmfb: Path) -> None:
    imported, given = vmfb.with_name("imported.vmfb"), A - 3

    hot, cold, narrow = rows(
        Invocation("hot", imported, "relu", [given], expected=[np.maximum(given, 0)]),
        Invocation("cold", imported, "relu", [Input(given, cold=True)], expected=[np.maximum(given, 0)]),
        Invocation("narrow", imported, "relu", [given[:, :8]]),
    )

    assert [(row["status"], row["verdict"]) for row in (hot, cold)] == [("measured", "within bound")] * 2
    assert narrow["status"] == "failed" and "shape" in narrow["reason"]


def test_a_wrong_result_is_reported_with_its_element_and_not_measured(vmfb: Path) -> None:
    wrong = A @ B
    wrong[3, 4] += 1

    (row,) = rows(Invocation("wrong", vmfb, "main", [A, B], expected=[wrong]))

    assert (row["status"], row["verdict"], row["dispatch"]) == ("failed", "different", None)
    assert row["reason"].startswith("1 element of result 0 is wrong; worst at [3, 4]: got ")


def test_sizes_and_bare_numbers_of_results_are_compared(vmfb: Path) -> None:
    given = [Input(X, cold=True), 7]
    found = rows(
        Invocation("right", vmfb, "boom", given, expected=[X, 7]),
        Invocation("number", vmfb, "boom", given, expected=[X, 8]),
        Invocation("sizes", vmfb, "boom", given, expected=[X[:2], 7]),
        check_only=True,
    )

    assert [row["status"] for row in found] == ["checked", "failed", "failed"]
    assert found[1]["reason"] == "result 1 is wrong: got 7, expected 8"
    assert found[2]["reason"] == "result 0 is 3x4, expected 2x4"


@pytest.mark.parametrize(
    ("script", "reason"), [(CRASH, "run failed: died by SIGSEGV"), (HANG, "took longer than limit_s=2")]
)
def test_a_crash_or_a_hang_is_a_row_and_the_next_invocation_runs(
    vmfb: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    monkeypatch.syspath_prepend(toolchain(tmp_path, iree_run_module=script).partition(":")[0])
    right = {"vmfb": vmfb, "function": "main", "inputs": [A, B], "expected": [A @ B]}

    found = rows(
        Invocation("first", **right), Invocation("boom", vmfb, "boom", [X, 7]), Invocation("last", **right),
        check_only=True, limit_s=2.0,
    )  # fmt: skip

    assert [row["status"] for row in found] == ["checked", "failed", "checked"]
    assert reason in found[1]["reason"] and found[1]["verdict"] == "not compared"


def test_weights_are_read_from_files(vmfb: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_irpa(Path("w.irpa"), w=B)
    given = {"vmfb": vmfb.with_name("weighted.vmfb"), "function": "main", "expected": [A + B]}

    found = rows(
        Invocation("hot", **given, inputs=[A], parameters="model=w.irpa"),
        Invocation("cold", **given, inputs=[Input(A, cold=True)], parameters=["model=w.irpa"]),
        Invocation("absent", **given, inputs=[A]),
    )

    assert [row["status"] for row in found] == ["measured", "measured", "failed"]
    assert [row["verdict"] for row in found[:2]] == ["within bound"] * 2 and found[0]["executions"] > 0
    assert "run failed" in found[2]["reason"]


def test_check_only_measures_nothing(vmfb: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(toolchain(tmp_path, iree_benchmark_module="exit 1").partition(":")[0])
    given = Invocation("mm", vmfb, "main", [A, B], expected=[A @ B])

    (row,) = rows(given, check_only=True)
    assert (row["status"], row["verdict"]) == ("checked", "within bound")
    assert all(row[name] is None for name in ("dispatch", "executions", "total_ns", "median_ns", "calls"))

    (row,) = rows(given)
    assert (row["status"], row["verdict"], row["reason"]) == ("failed", "within bound", "measuring failed: exit code 1")


def test_a_file_that_is_not_a_compiled_module_is_refused(tmp_path: Path) -> None:
    with pytest.raises(dispatchflow.errors.SpecError, match="no compiled module"):
        rows(Invocation("mm", b"PK", "main"))
    for _ in range(20):  # the tool may end before the limit is first looked at
        with pytest.raises(dispatchflow.errors.SpecError) as error:
            rows(Invocation("mm", b"PK", "main"), limit_s=1e-9)
        if "not read in time" in str(error.value):
            break
    assert "took longer than limit_s=1e-09" in str(error.value)
    with pytest.raises(dispatchflow.errors.SpecError, match="cannot be read") as error:
        rows(Invocation("mm", tmp_path / "none.vmfb", "main"))
    assert f"{tmp_path / 'none.vmfb'}\n" in str(error.value) and "No such file" in str(error.value)
    assert error.value.hint == "iree-compile NAME.mlir -o NAME.vmfb makes one."


def test_a_microbenchmarks_times_agree_with_a_projects_times(made: Project) -> None:
    # A factor of 100 shows a wrong unit. It is large because tests share their machine.
    (row,) = (row for row in made.rows() if row["case"] == NAME)
    (compiled,) = (made.root / "build" / NAME).rglob("module.vmfb")

    (found,) = rows(Invocation("mm", compiled, "main", [A, B]))

    assert found["dispatch"] == row["dispatches"][0]
    assert row["dispatch_ns"] / 100 < found["dispatch_ns"] < row["dispatch_ns"] * 100
