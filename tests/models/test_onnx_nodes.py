"""The location of the compiler's error shows which ONNX node the compiler cannot lower."""

from dispatchflow.models.onnx_nodes import blamed

PRINTED = """\
module {
  func.func @net(%arg0: !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> {
    %0 = torch.operator "onnx.Relu"(%arg0) : (!torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32>
    %1 = torch.operator "onnx.If"(%0) : (!torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> {
      %3 = torch.operator "onnx.Foo"(%0) : (!torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32>
    }
    %2 = torch.operator "onnx.Bar"(%1) : (!torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32>
"""
LABELLED = """\
#loc1 = loc("early")
module {
  func.func @net(%arg0: !torch.vtensor<[4],f32> loc("x")) -> !torch.vtensor<[4],f32> {
    %0 = torch.operator "onnx.Relu"(%arg0) : (!torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32>  loc(#loc1)
    %1 = torch.operator "onnx.If"(%0) : (!torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> {
      %3 = torch.operator "onnx.Foo"(%0) : (!torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32>  loc("a \\22b\\22")
    } loc(#loc2)
    %2 = torch.operator "onnx.Bar"(%1) : (!torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> loc(#loc3)
#loc2 = loc("if")
#loc3 = loc("layer/bar")
"""


def told(line):
    return blamed(f"<stdin>:{line}:10: error: failed to legalize\n<stdin>:3:1: error: later", PRINTED, LABELLED)


def test_the_node_at_the_first_error_is_named():
    assert told(3) == "node 'early' (Relu)"
    assert told(5) == "node 'a \"b\"' (Foo)"
    assert told(7) == "node 'layer/bar' (Bar)"


def test_a_name_that_is_not_found_is_left_out():
    assert told(4) == "a node If"


def test_an_error_outside_of_every_node_names_no_node():
    assert told(1) is None
    assert told(700) is None
    assert blamed("error: out of memory", PRINTED, LABELLED) is None
