"""ONNX models are imported, compiled and verified against onnxruntime, and measured."""

import numpy as np
import pytest
from support.project import Project, only

pytest_plugins = ["support.project"]
pytestmark = pytest.mark.iree
onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
SPEC = 'operation = "module"\nfile = "{}.onnx"\nreference = "onnxruntime"\nthreads = 1\n'
NAME = "module_net_tiny-net_default@llvm-cpu-1t"


def network(path, seed=0, opset=13, external=None, scale=1.0, last=None):
    """Write an ONNX model with random weights.

    The model computes a convolution, an activation and a product. The activation's node has no name. `external` names
    a file for the weights. `last` has the arguments of a node that replaces the product."""
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(seed)
    value, float_ = helper.make_tensor_value_info, TensorProto.FLOAT

    def weight(name, *sizes):
        return numpy_helper.from_array((scale * random.standard_normal(sizes)).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="first/conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["activated"]),
        helper.make_node("Flatten", ["activated"], ["flat"], name="flatten"),
        helper.make_node("Gemm", ["flat", "a", "b"], ["y"], name="last"),
    ]
    weights = [weight("w", 3, 2, 3, 3), weight("a", 192, 5), weight("b", 5)]
    inputs, outputs = [value("x", float_, [1, 2, 8, 8])], [value("y", float_, [1, 5])]
    if last is not None:
        nodes[-1:], weights = [helper.make_node(**last)], weights[:1]
        inputs, outputs = [*inputs, value("i", TensorProto.INT64, [1, 3, 8, 8])], [value("y", float_, [1, 3, 16, 16])]
    graph = helper.make_graph(nodes, "tiny net", inputs, outputs, weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    outside = {"save_as_external_data": True, "location": external, "size_threshold": 0} if external else {}
    onnx.save(made, path, **outside)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("onnx")
    project = Project.make(root, f"[[sweep]]\n{SPEC.format('net')}")
    network(root / "specs/net.onnx")
    outcome = project.doit("verify")
    assert outcome.code == 0, str(outcome)
    return project


def test_a_network_is_verified_against_onnxruntime_and_keeps_its_nodes_names(made):
    folder = made.root / "build" / NAME
    assert "within bound" in (folder / "case.txt").read_text()
    assert "compared with  onnxruntime" in (folder / "case.txt").read_text()
    labelled = (folder / "labelled.mlir").read_text()
    assert [name for name in ("first/conv", "activated", "flatten", "last") if f'loc("{name}")' not in labelled] == []
    assert "loc(" not in (folder / "module.mlir").read_text()
    assert made.made_by("verify")[0] == only()


def test_a_row_says_from_which_opset_it_was_converted(made, tmp_path):
    project = made.copy(tmp_path / "row")
    outcome = project.doit("protocol=fast", "profile")
    assert outcome.code == 0, str(outcome)
    (row,) = project.rows()
    assert row["verification"] == "within bound"
    assert "converted from opset 13" in row["reason"]


def test_another_weight_is_imported_compiled_and_verified_again_and_expected_results_follow(made, tmp_path):
    project = made.copy(tmp_path / "weight")
    network(project.root / "specs/net.onnx", seed=1)
    counts, outcome = project.made_by("verify")
    assert counts == only(emit=1, compile=1, verify=1), str(outcome)
    network(project.root / "specs/net.onnx")
    assert project.made_by("verify")[0] == only()


def test_weights_in_a_file_of_their_own_are_tracked_by_content(tmp_path):
    project = Project.make(tmp_path, f"[[sweep]]\n{SPEC.format('net')}")
    network(tmp_path / "specs/net.onnx", opset=17, external="net.bin")
    outcome = project.doit("verify")
    assert outcome.code == 0, str(outcome)
    weights = (tmp_path / "specs/net.bin").read_bytes()
    (tmp_path / "specs/net.bin").write_bytes(weights[:-4] + np.float32(9).tobytes())
    assert project.made_by("verify")[0] == only(emit=1, compile=1, verify=1)
    (tmp_path / "specs/net.bin").unlink()
    outcome = project.doit("verify")
    assert outcome.code == 1
    assert "cannot import net.onnx: its data file net.bin, with tensor '" in outcome.out, str(outcome)


def test_an_error_in_a_model_is_reported_in_one_line(tmp_path):
    names = ("junk", "outside", "unpool")
    project = Project.make(tmp_path, "".join(f"[[sweep]]\n{SPEC.format(name)}" for name in names))
    (tmp_path / "specs/junk.onnx").write_bytes(b"\x08\x07\x12\x07pytorch" + b"\xff" * 40)
    network(tmp_path / "specs/outside.onnx", opset=17, external="w.bin")
    content = (tmp_path / "specs/outside.onnx").read_bytes()
    (tmp_path / "specs/outside.onnx").write_bytes(content.replace(b"w.bin", b"../.b"))
    (tmp_path / "specs/../.b").write_bytes(b"")
    unpool = {"op_type": "MaxUnpool", "inputs": ["activated", "i"], "outputs": ["y"], "name": "head/unpool"}
    network(tmp_path / "specs/unpool.onnx", last=unpool | {"kernel_shape": [2, 2], "strides": [2, 2]})
    outcome = project.doit("verify")
    assert outcome.code == 1
    assert "cannot import junk.onnx: " in outcome.out
    assert "outside.onnx names weights outside of its own directory: ../.b" in outcome.out
    assert "compile failed: node 'head/unpool' (MaxUnpool), opset 17: failed to legalize" in outcome.out
    assert "Traceback" not in str(outcome)


def test_expected_results_have_types_and_sizes(made):
    assert (made.root / "build" / NAME / "expected_types.txt").read_text() == "1x5xf32\n"
