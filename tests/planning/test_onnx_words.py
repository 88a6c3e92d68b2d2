"""Cases of ONNX files are planned without a toolchain and without the package `onnx`."""

import sys

import pytest
from support.onnx_bytes import field, model, tensor

from dispatchflow.engine import module_actions
from dispatchflow.errors import SpecError
from dispatchflow.keys import Digest, digest_of
from dispatchflow.planning import parser
from dispatchflow.planning.location import COMMAND_LINE
from dispatchflow.project.workspace import Workspace

FILES = {"nets/a.onnx": model(field(5, tensor("a.bin"))), "nets/a.bin": b"weights", "m.mlir": b"func.func @f() {}"}


def modules(files=FILES, **words):
    def read(name):
        if name not in files:
            raise FileNotFoundError(name)
        return name, files[name]

    return parser.sweep({"operation": "module", "file": "nets/a.onnx", **words}, COMMAND_LINE, read).modules


def test_a_model_is_one_case_called_like_its_graph_with_the_files_of_its_weights():
    (program,) = modules()
    assert (program.function, program.label, program.packages) == ("net", "a_net", ("onnx",))
    assert program.objects[0][0] == "a.bin"
    assert program.objects[0][1].digest == digest_of(b"weights")
    assert "onnx" not in sys.modules
    with pytest.raises(SpecError, match="no public function 'main'"):
        modules(function="main")


def test_onnx_models_can_be_compared_with_onnxruntime_and_mlir_files_cannot():
    (program,) = modules(reference="onnxruntime")
    assert program.compared and program.against is None
    assert program.packages == ("onnx", "onnxruntime")
    assert program.reference_name == "the reference, onnxruntime"
    with pytest.raises(SpecError, match="onnxruntime runs ONNX models only"):
        modules(file="m.mlir", reference="onnxruntime")
    (mlir,) = modules(file="m.mlir", reference="vmvx")
    assert mlir.packages == ()


def test_a_misspelt_reference_is_compared_with_onnxruntime_too():
    for word, hint in (("onnxruntim", "Did you mean 'onnxruntime'?"), ("vmv", "Did you mean 'vmvx'?")):
        with pytest.raises(SpecError, match=f"unknown target '{word}'") as error:
            modules(reference=word)
        assert error.value.hint == hint
        assert error.value.facts["known"].startswith("onnxruntime, llvm-cpu, ")


def emit(version="1.23.2", **words):
    (program,) = modules(**words)
    return module_actions.reprint(program, Digest("toolchain"), version)


def test_model_weights_importer_and_its_version_are_in_the_key():
    assert emit().key == emit().key
    assert emit().ingredients["importer_version"] == "1.23.2"
    others = [
        emit("1.24.0"),
        emit(files={**FILES, "nets/a.bin": b"others"}),
        emit(files={**FILES, "nets/a.onnx": model(b"")}),
    ]
    assert len({emit().key, *(other.key for other in others)}) == 4


def test_the_key_of_an_mlir_file_has_no_importer():
    assert set(emit(None, file="m.mlir").ingredients) == {"source", "objects", "toolchain", "protocol"}


def test_without_the_package_a_model_is_a_skip_that_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.onnx").write_bytes(FILES["nets/a.onnx"])
    words = {"file": ("a.onnx",), "reference": "onnxruntime"}
    for lacking in ("onnx", "onnxruntime"):
        monkeypatch.setattr(
            Workspace, "_library", lambda self, name, lacking=lacking: None if name == lacking else name
        )
        (skip,) = Workspace(tmp_path, words).plan.skips
        assert skip.reason == f"{lacking} is not installed; pip install 'dispatchflow[onnx]'"
