"""A case may run an ONNX model with onnxruntime instead of IREE.

The keys of such a case depend on the content of the model's files, but not on the model's path."""

from pathlib import Path

import pytest
from support.onnx_bytes import field, model, tensor

from dispatchflow.cases.case import Case
from dispatchflow.cases.dispatch import Dispatch
from dispatchflow.cases.module import File, Module
from dispatchflow.cases.provider import operand_types
from dispatchflow.iree.targets import TARGETS
from dispatchflow.keys import Digest, Key
from dispatchflow.libraries import providers
from dispatchflow.libraries.installed import Installed
from dispatchflow.mlir.types import ElementType, TensorType
from dispatchflow.project.workspace import Workspace
from dispatchflow.reports import operations
from dispatchflow.tunings import TUNINGS

MLIR = "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"
HERE = Installed("1.30", Digest("d"), "/somewhere")


@pytest.fixture
def plan_here(tmp_path, monkeypatch):
    """Return `plan(**words)`, which plans one sweep with the variables `words`.

    `plan` returns (names of the cases, reasons why other combinations of values are skipped)."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.onnx").write_bytes(model(field(5, tensor("a.bin"))))
    (tmp_path / "a.bin").write_bytes(b"weights")
    (tmp_path / "f.mlir").write_text(MLIR)
    monkeypatch.setattr(Workspace, "_library", lambda self, name: HERE)

    def plan(**words):
        found = Workspace(tmp_path, {"threads": "1", **words}).plan
        return [case.name for case in found.cases], [skip.reason for skip in found.skips]

    return plan


def test_a_model_is_a_case_of_each_provider_beside_all_tunings(plan_here):
    cases, skips = plan_here(file=("net.onnx",), provider="iree,onnxruntime", tuning="default,data_tiling")
    assert [case.split("net_net_")[1] for case in cases] == [
        "default@llvm-cpu-1t", "data_tiling@llvm-cpu-1t", "onnxruntime@llvm-cpu-1t",
    ]  # fmt: skip
    assert skips == []


def test_a_library_computes_either_operations_or_models(plan_here):
    sizes = dict.fromkeys("mnk", "8")
    assert plan_here(**sizes, provider="onnxruntime") == ([], ["onnxruntime computes ONNX files, not operations"])
    mlir = "onnxruntime computes ONNX files, not MLIR files"
    assert plan_here(file=("f.mlir",), provider="onnxruntime") == ([], [mlir])
    assert plan_here(file=("net.onnx",), provider="numpy") == ([], ["numpy computes operations, not ONNX files"])
    assert "onnxruntime" not in operations.page()


def test_cold_inputs_and_other_devices_are_skips(plan_here):
    words = {"file": ("net.onnx",), "provider": "onnxruntime"}
    (reason,) = plan_here(**words, cache="cold")[1]
    assert "onnxruntime takes the same inputs in each call of a model" in reason
    assert plan_here(**words, target="vulkan")[1] == ["onnxruntime does not run on vulkan"]


def test_a_library_that_is_not_installed_is_a_skip_of_its_own_cases(plan_here, monkeypatch):
    monkeypatch.setattr(Workspace, "_library", lambda self, name: None if name == "onnxruntime" else HERE)
    cases, skips = plan_here(file=("net.onnx",), provider="iree,onnxruntime")
    assert [case.split("net_net_")[1] for case in cases] == ["default@llvm-cpu-1t"]
    assert skips == ["onnxruntime is not installed; pip install 'dispatchflow[onnx]'"]


# --- keys


def case(name="net.onnx", content="c", weight=("w.bin", "w")):
    objects = ((weight[0], File("w", Digest(weight[1]))),)
    program = Module(File(name, Digest(content)), "net", "main", objects=objects, importer="onnx")
    (tuning,) = TUNINGS["default"].expand({})
    return Case(Dispatch(program, tuning), TARGETS["llvm-cpu"], threads=1, provider="onnxruntime")


def test_keys_of_a_model_depend_on_its_files_content_and_on_the_library(resolver_of, monkeypatch):
    def keys(of, installed=HERE) -> tuple[Key, Digest]:
        resolver = resolver_of(installed=lambda name: installed)
        return resolver.emission(of).key, resolver.call_code(of)

    base, models = keys(case()), [case(content="c2"), case(weight=("w.bin", "w2")), case(weight=("v.bin", "w"))]
    found = [base, *map(keys, models)]
    assert [len(set(column)) for column in zip(*found, strict=True)] == [4, 4]
    assert keys(case("elsewhere/other.onnx")) == base
    others = [keys(case(), Installed("1.31", HERE.digest, "")), keys(case(), Installed("1.30", Digest("e"), ""))]
    monkeypatch.setattr(providers, "HARNESS", providers.HARNESS + 1)
    others.append(keys(case()))
    assert {emitted for emitted, _ in others} == {base[0]}
    assert len({base[1], *(code for _, code in others)}) == 4


def test_files_of_a_model_have_their_own_names_in_a_folder_of_its_own():
    program = case("nets/net.onnx", weight=("./sub/given_0.bin", "w")).library_program
    outputs = {name: Digest(str(Path(name).name)) for name in program.outputs}
    assert program.files(outputs) == {"model/net.onnx": "module", "model/sub/given_0.bin": "given_0.bin"}
    assert program.problem is None
    outside = case(weight=("../w.bin", "w")).library_program
    assert outside.problem == "net.onnx names weights outside of its own directory: ../w.bin"


def test_types_of_a_model_s_operands_are_those_of_its_inputs():
    found = operand_types(case().operation, ("1x4xf32", "f32", "3xi8"))
    assert found == [
        TensorType((1, 4), ElementType.F32),
        TensorType((), ElementType.F32),
        TensorType((3,), ElementType.I8),
    ]
