"""IREE and onnxruntime run the same ONNX model with the same inputs.

Their results are compared with the same reference, and both are measured in alternation."""

import json
import subprocess

import numpy as np
import pytest
from support.project import Project, only
from support.tools import LIMIT_S, environment

pytest_plugins = ["support.project"]
pytestmark = pytest.mark.iree
onnx = pytest.importorskip("onnx", reason="onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
SPEC = """\
[[sweep]]
operation = "module"
file = "net.onnx"
inputs = ["6x8xf32", "6x8xi1", "f32=0.5", "5xi8=integers"]
provider = ["iree", "onnxruntime"]
threads = 1
"""
OURS, THEIRS = "module_net_odd_default@llvm-cpu-1t", "module_net_odd_onnxruntime@llvm-cpu-1t"


def network(path, seed=0):
    """Write an ONNX model with several element types and a dynamic dimension.

    The weights are in the file `data/w.bin` beside the model."""
    from onnx import TensorProto, helper, numpy_helper

    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Where", ["mask", "x", "fill"], ["masked"]),
        helper.make_node("MatMul", ["masked", "w"], ["y"]),
        helper.make_node("ArgMax", ["y"], ["place"], axis=1, keepdims=0),
        helper.make_node("Add", ["u", "u"], ["twice"]),
    ]
    inputs = [
        value("x", TensorProto.FLOAT, ["N", 8]),
        value("mask", TensorProto.BOOL, ["N", 8]),
        value("fill", TensorProto.FLOAT, []),
        value("u", TensorProto.UINT8, [5]),
    ]
    outputs = [
        value("y", TensorProto.FLOAT, ["N", 3]),
        value("place", TensorProto.INT64, ["N"]),
        value("twice", TensorProto.UINT8, [5]),
    ]
    weights = np.random.default_rng(seed).standard_normal((8, 3)).astype(np.float32)
    graph = helper.make_graph(nodes, "odd", inputs, outputs, [numpy_helper.from_array(weights, "w")])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (path.parent / "data").mkdir(exist_ok=True)
    (path.parent / "data/w.bin").unlink(missing_ok=True)
    onnx.save(made, path, save_as_external_data=True, location="data/w.bin", size_threshold=0)


def test_onnxruntime_is_measured_beside_iree(tmp_path):
    project = Project.make(tmp_path, f'{SPEC}reference = "vmvx"\n')
    network(tmp_path / "specs/net.onnx")
    outcome = project.doit("protocol=fast", "profile")
    assert outcome.code == 0, str(outcome)
    ours, theirs = (row for name in (OURS, THEIRS) for row in project.rows() if row["case"] == name)
    same = ("verification", "data_digest", "program_digest", "rounds", "threads", "shape")
    assert [theirs[name] for name in same] == [ours[name] for name in same]
    assert (theirs["verification"], theirs["provider"]) == ("within bound", "onnxruntime")
    assert (theirs["runtime_version"], theirs["verified_with"]) == (onnxruntime.__version__,) * 2
    assert (theirs["tuning"], theirs["toolchain_version"], theirs["compile_key"]) == (None, None, None)
    assert f"onnxruntime {onnxruntime.__version__}" in outcome.out

    shown = project.doit("best", "format=jsonl", "columns=case,percent_of_best_provider").out
    parts = [json.loads(line)["percent_of_best_provider"] for line in shown.splitlines()]
    assert len(parts) == 2 and max(parts) == 100
    view = project.root / "build" / THEIRS
    assert (view / "model/data/w.bin").is_symlink()
    for word in ("run", "benchmark"):
        subprocess.run([view / "repro.sh", word], check=True, timeout=LIMIT_S, env=environment({}))
    for i in (1, 2):
        assert (view / f"again_{i}.bin").read_bytes() == (view / f"expected_{i}.bin").read_bytes()
    assert project.made_by("protocol=fast", "profile")[0] == only()

    network(project.root / "specs/net.onnx", seed=1)  # only the weights change
    counts, outcome = project.made_by(f"verify:{THEIRS}")
    # The model is emitted again, and its import, from which the types are read.
    assert (counts["emit"], counts["verify"]) == (2, 1), str(outcome)
    outcome = project.doit("plan", "protocol=fast", f"profile:{THEIRS}")
    assert "profile  1 of 1 to run" in outcome.out, str(outcome)


def test_types_that_onnxruntime_cannot_be_given_are_failures_with_that_reason(tmp_path):
    project, onnx_type = Project.make(tmp_path), onnx.TensorProto
    made = {"in": ("BFLOAT16", "FLOAT"), "out": ("FLOAT", "FLOAT8E4M3FN"), "inside": ("FLOAT", "FLOAT")}
    for name, types in made.items():
        x, z = (
            onnx.helper.make_tensor_value_info(*each, [4])
            for each in zip("xz", map(onnx_type.DataType.Value, types), strict=True)
        )
        nodes = [
            onnx.helper.make_node("Cast", ["x"], ["y"], to=onnx_type.BFLOAT16),
            onnx.helper.make_node("Cast", ["y"], ["z"], to=onnx_type.DataType.Value(types[1])),
        ]
        graph = onnx.helper.make_graph(nodes, "net", [x], [z])
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 19)], ir_version=9)
        onnx.save(model, tmp_path / f"{name}.onnx")

    def said(name, reference):
        words = (f"file={name}.onnx", f"reference={reference}", "provider=onnxruntime", "threads=1", "verify")
        outcome = project.doit(*words)
        assert "Traceback" not in outcome.out + outcome.err
        return outcome.out

    why = "its Python interface has numpy's types only"
    assert f"FAILED: onnxruntime takes and returns no bf16: {why}" in said("in", "llvm-cpu")
    assert f"FAILED: the reference, onnxruntime: onnxruntime takes and returns no bf16: {why}" in said(
        "in", "onnxruntime"
    )
    assert f"onnxruntime takes and returns no f8E4M3FN: {why}" in said("out", "onnxruntime")
    assert "1 verified" in said("inside", "llvm-cpu")


def test_onnxruntime_is_mistrusted_beside_itself_and_wrong_beside_other_results(tmp_path):
    project = Project.make(tmp_path, f'{SPEC}reference = "onnxruntime"\n')
    network(tmp_path / "specs/net.onnx")
    outcome = project.doit(f"verify:{THEIRS}")
    assert outcome.code == 0, str(outcome)
    assert "verification   mistrusted" in (project.root / "build" / THEIRS / "case.txt").read_text()
    assert f"{THEIRS}: onnxruntime computed the expected results too, without optimizations; another" in outcome.out

    np.savez(tmp_path / "specs/y.npz", np.zeros((6, 3), np.float32), np.zeros(6, np.int64), np.zeros(5, np.int8))
    project.add(f'{SPEC}expected = "@y.npz:arr_*"\n', "a.toml")
    outcome = project.doit(f"verify:{THEIRS}")
    assert outcome.code == 1
    assert "elements of result 0 are wrong" in outcome.out, str(outcome)


def test_a_model_that_cannot_be_imported_fails_once_for_each_provider(tmp_path):
    project = Project.make(tmp_path, SPEC)
    (tmp_path / "specs/net.onnx").write_bytes(b"\x08\x07\x12\x07pytorch" + b"\xff" * 40)
    outcome = project.doit("verify")
    assert outcome.code == 1
    assert "cannot import net.onnx: " in outcome.out
    assert "Traceback" not in str(outcome)
    assert project.made_by("verify", code=1)[0] == only()
