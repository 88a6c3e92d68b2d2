"""The types of results, with their sizes, are read from the output of `iree-run-module`."""

from dispatchflow.iree.run_output import result_types

PRINTED = """\
EXEC @main
result[0]: hal.buffer_view
2x3xbf16=[...][...]
result[1]: f32=3.14159
result[2]: hal.buffer_view
f32=2
result[3]: hal.buffer_view
0x513xf32=
result[4]: hal.buffer_view
2xcf64=...
"""


def test_types_of_tensors_are_read_with_their_sizes():
    assert result_types(PRINTED) == {0: "2x3xbf16", 2: "tensor<f32>", 3: "0x513xf32", 4: "2xcf64"}
    assert result_types("") == {}
