"""Say how to make an MLIR module from a network in a format other than MLIR and ONNX."""

from __future__ import annotations

from pathlib import PurePath

_TENSORFLOW = "iree-import-tf imports a TensorFlow saved model"
_KERAS = f"save the network as a saved model: {_TENSORFLOW}"
_TORCH = "doit import file=net.py:make exports the PyTorch module that your function make returns"
_WAYS = {
    ".tflite": f"import the saved model that it was made from: {_TENSORFLOW}",
    ".pb": _TENSORFLOW,
    ".h5": _KERAS,
    ".keras": _KERAS,
    ".pt": _TORCH,
    ".pth": _TORCH,
    ".safetensors": "it has weights and no program: load it in the function that doit import calls",
}


def hint(name: str) -> str | None:
    """Return how to make an MLIR module from a file with this name, and the page that explains it.

    The result is None if the ending of the name is unknown."""
    way = _WAYS.get(PurePath(name).suffix.lower())
    return way and f"{way}; see docs/models.md"
