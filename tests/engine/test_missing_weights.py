"""If a weight file of an ONNX model is missing, the error names it before the model is imported."""

from pathlib import Path

from support.onnx_bytes import field, model, tensor

from dispatchflow.engine import printing
from dispatchflow.planning import parser
from dispatchflow.planning.location import COMMAND_LINE


def read(name):
    return name, Path(name).read_bytes()


def test_a_missing_file_of_weights_is_named_with_a_tensor_and_a_way_out(tmp_path):
    file = tmp_path / "net.onnx"
    file.write_bytes(model(field(5, tensor("net.bin")) + field(5, tensor("data/more.bin"))))
    (tmp_path / "net.bin").write_bytes(b"weights")
    words = {"operation": "module", "file": str(file)}
    (program,) = parser.sweep(words, COMMAND_LINE, read).modules
    assert printing.missing_weights(program) == (
        "cannot import net.onnx: its data file data/more.bin, with tensor 'w', is missing or unreadable; "
        "keep it beside net.onnx, at this path relative to it"
    )
    (tmp_path / "data").mkdir()
    (tmp_path / "data/more.bin").write_bytes(b"weights")
    (program,) = parser.sweep(words, COMMAND_LINE, read).modules
    assert printing.missing_weights(program) is None
