"""Modules whose weights are in files (`parameters`) are verified and measured."""

import json
import struct
import subprocess

import numpy as np
import pytest
from support.module_operand import X
from support.project import Project, only
from support.weights import write_irpa

pytest_plugins = ["support.project"]
pytestmark = pytest.mark.iree

LINEAR = """\
util.global private @w = #flow.parameter.named<"model"::"w"> : tensor<8x16xf32>
util.global private @b = #flow.parameter.named<"model"::"b"> : tensor<16xf32>
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x16xf32> {
  %w = util.global.load @w : tensor<8x16xf32>
  %b = util.global.load @b : tensor<16xf32>
  %e = tensor.empty() : tensor<4x16xf32>
  %i = linalg.broadcast ins(%b : tensor<16xf32>) outs(%e : tensor<4x16xf32>) dimensions = [0]
  %0 = linalg.matmul ins(%x, %w : tensor<4x8xf32>, tensor<8x16xf32>)
      outs(%i : tensor<4x16xf32>) -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}
"""
W = np.arange(-64, 64, dtype="float32").reshape(8, 16) / 8
B = np.arange(16, dtype="float32")
SPEC = """
[[sweep]]
operation = "module"
file = "linear.mlir"
inputs = "@x.npy"
parameters = "model=w.irpa"
expected = "y.npy"
threads = 1
"""
NAME = "module_linear_main_default@llvm-cpu-1t"


def write_safetensors(path, dtype="F32", **arrays):
    header, at = {}, 0
    for key, array in arrays.items():
        header[key] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(array.tobytes() for array in arrays.values()))


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    project = Project.make(tmp_path_factory.mktemp("parameters"), SPEC)
    folder = project.root / "specs"
    (folder / "linear.mlir").write_text(LINEAR)
    np.save(folder / "x.npy", X)
    np.save(folder / "y.npy", X @ W + B)
    write_irpa(folder / "w.irpa", w=W, b=B)
    outcome = project.doit("profile", "protocol=fast")
    assert outcome.code == 0, str(outcome)
    return project


def test_a_module_with_weights_is_verified_and_measured_and_repeats_by_hand(project):
    (row,) = project.rows()
    assert row["verification"] == "within bound", row
    assert row["median_ns"] > 0
    assert "1 case: up to date" in project.doit("profile", "protocol=fast").out
    folder = project.root / "build" / NAME
    assert f"parameters     model={project.root / 'specs/w.irpa'}" in (folder / "case.txt").read_text()
    for word in ("compile", "run", "benchmark"):
        subprocess.run([folder / "repro.sh", word], check=True, capture_output=True)
    assert np.allclose(np.fromfile(folder / "again_0.bin", "float32").reshape(4, 16), X @ W + B)


def test_an_edited_weight_is_verified_and_measured_again_and_nothing_is_compiled(project, tmp_path):
    copied = project.copy(tmp_path / "p")
    folder = copied.root / "specs"
    write_irpa(folder / "w.irpa", w=W * 2, b=B)
    made, outcome = copied.made_by("profile", "protocol=fast", code=1)
    assert made == only(verify=1), str(outcome)
    assert "elements of result 0 are wrong" in outcome.out
    np.save(folder / "y.npy", X @ (W * 2) + B)
    made, outcome = copied.made_by("profile", "protocol=fast")
    assert made == only(verify=1, profile=1), str(outcome)
    write_irpa(folder / "w.irpa", w=W, b=B)
    np.save(folder / "y.npy", X @ W + B)
    assert "1 case: up to date" in copied.doit("profile", "protocol=fast").out


def test_weights_are_read_from_several_files_and_other_formats_also_by_the_reference(project, tmp_path):
    copied = project.copy(tmp_path / "p")
    write_irpa(copied.root / "b.irpa", b=B)
    write_safetensors(copied.root / "w.safetensors", w=W)
    words = ("file=specs/linear.mlir", "inputs=@specs/x.npy", "reference=vmvx", "threads=1")
    outcome = copied.doit(*words, "parameters=model=w.safetensors;model=b.irpa", "verify")
    assert outcome.code == 0, str(outcome)
    assert "1 verified" in outcome.out


@pytest.mark.parametrize(
    ("weights", "told"),
    [
        (None, 'handles scopes like \'model\'; give its file: parameters = ["model=weights.irpa"]'),
        ("w.irpa", 'handles scopes like \'model\'; give its file: parameters = ["model=weights.irpa"]; scopes given: none'),
        (
            "model=half.irpa",
            "no parameter found in index with key 'b'; no file in parameters has this weight; nearest weights: 'model::w'",
        ),
        ("model=i32.safetensors", "'w' of the scope 'model' is i32 in its file; the module's is a tensor<8x16xf32>"),
        ("model=w.irpa;model=half.irpa", "the weight 'w' of the scope 'model' is in the parameters twice"),
        ("model=small.irpa", "'w' of the scope 'model' has 256 B in its file; the module's is a tensor<8x16xf32> of 512 B"),
        ("model=large.irpa", "'w' of the scope 'model' has 1,024 B in its file; the module's is a tensor<8x16xf32>"),
        ("model=x.gguf", "cannot read x.gguf: INVALID_ARGUMENT; GGUF file magic missing or invalid"),
    ],
)  # fmt: skip
def test_wrong_weights_are_reported_without_compiling(project, tmp_path, weights, told):
    copied = project.copy(tmp_path / "p")
    folder = copied.root / "specs"
    write_irpa(folder / "half.irpa", w=W)
    write_irpa(folder / "small.irpa", w=W[:4], b=B)
    write_irpa(folder / "large.irpa", w=np.concatenate([W, W]), b=B)  # the runtime would read the first half
    write_safetensors(folder / "i32.safetensors", dtype="I32", w=W, b=B)
    (folder / "x.gguf").write_bytes((folder / "w.irpa").read_bytes())
    written = "" if weights is None else f"parameters = {json.dumps(weights.split(';'))}"
    copied.add(SPEC.replace('parameters = "model=w.irpa"', written), "a.toml")
    made, outcome = copied.made_by("verify", code=1)
    assert told in outcome.out
    assert made["compile"] == 0
