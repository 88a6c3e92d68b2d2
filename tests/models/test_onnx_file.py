"""A plan finds an ONNX file's function name and its weight files without the package `onnx`."""

import pytest
from support.onnx_bytes import field, model, node, tensor

from dispatchflow.models import onnx_file


def test_the_function_is_called_like_the_graph():
    assert onnx_file.function(model(b"")) == "net"
    assert onnx_file.function(model(b"", "a graph/of é")) == "a graph/of é"


@pytest.mark.parametrize(
    "content", [b"", model(b"", ""), b"func.func @f()", b"\x3a\xff\xff\xff\xff\x0f", b"\x3a", b"\xff"]
)
def test_an_unnamed_graph_and_a_file_that_is_not_a_model_have_the_function_main(content):
    assert onnx_file.function(content) == "main"
    assert onnx_file.weight_files(content) == {}


def test_weights_in_other_files_are_found_in_initializers_constants_and_inner_graphs():
    inner = field(5, tensor("inner.bin")) + node(field(10, tensor("list.bin")))
    graph = field(5, tensor("a/w.bin")) + field(5, tensor("a/w.bin")) + node(field(5, tensor("constant.bin")))
    content = model(graph + node(field(6, inner)) + node(field(11, field(5, tensor("branch.bin")))))
    files = ["a/w.bin", "constant.bin", "inner.bin", "list.bin", "branch.bin"]
    assert onnx_file.weight_files(content) == dict.fromkeys(files, "w")
    assert onnx_file.weight_files(content[:-40]) == {}  # cut off: the graph is incomplete


def test_weights_in_the_model_file_itself_name_no_other_file():
    assert onnx_file.weight_files(model(field(5, field(8, "location") + field(9, b"\0" * 40)))) == {}
