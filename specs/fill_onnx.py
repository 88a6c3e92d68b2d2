"""Replace the weights of some ONNX models by random numbers.

Usage: `python specs/fill_onnx.py DIRECTORY [NAME …]`; the models are written into DIRECTORY. The `onnx` package
contains well-known networks as light models. In these models, all elements of a weight are equal, and every
output is 0.001. Wrong code could therefore pass verification."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

onnxruntime.set_default_logger_severity(3)

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
NAMES = ("squeezenet", "resnet50", "shufflenet")
SPREAD = 2.0
"""Standard deviation of the values before the softmax."""


def filled(model: Any, seed: int = 0) -> Any:
    """Replace the float32 weights of `model` in place by random numbers, and return `model`."""
    graph, random = model.graph, np.random.default_rng(seed)
    shapes = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    roles = {name: (node, place) for node in graph.node for place, name in enumerate(node.input)}
    sizes = {name: value.shape for name, value in shapes.items() if value.dtype == np.float32}
    constant = [node for node in graph.node if node.op_type == "ConstantOfShape" and node.input[0] in shapes]
    sizes |= {node.output[0]: tuple(map(int, shapes[node.input[0]])) for node in constant}
    for node in constant:
        graph.node.remove(node)
    used = {name for node in graph.node for name in node.input}
    for each in [each for each in graph.initializer if each.name in sizes or each.name not in used]:
        graph.initializer.remove(each)
    for name in sorted(sizes.keys() & used):
        graph.initializer.append(numpy_helper.from_array(_weight(random, *roles[name], sizes[name]), name))
    known = {each.name for each in graph.initializer}
    for value in [value for value in graph.input if value.name in known or value.name not in used]:
        graph.input.remove(value)
    model.ir_version = 8  # from 4 on, weights need not be inputs too
    return model


def _weight(random: Any, node: Any, place: int, sizes: tuple[int, ...]) -> Any:
    # The weights are scaled so that activations have similar magnitudes in all layers.
    normal = random.standard_normal(sizes).astype(np.float32)
    if node.op_type in ("Conv", "Gemm") and place == 1:
        terms = int(np.prod(sizes[1:]))
        if node.op_type == "Gemm" and not any(each.name == "transB" and each.i for each in node.attribute):
            terms = sizes[0]
        return normal * np.float32(np.sqrt(2 / terms))  # half of the terms are 0 after a Relu
    if node.op_type == "BatchNormalization" and place in (1, 4):  # scale and variance
        return random.uniform(0.5, 1.5, sizes).astype(np.float32)
    return normal * np.float32(0.1)


def spread(model: Any) -> Any:
    """Scale the last layer so that the input of the softmax has the standard deviation `SPREAD`."""
    graph = model.graph
    softmax = next(node for node in graph.node if node.op_type == "Softmax")
    last = [node for node in graph.node if node.op_type in ("Conv", "Gemm")][-1]
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    probe.graph.output.append(onnx.helper.make_empty_tensor_value_info(softmax.input[0]))
    session = onnxruntime.InferenceSession(probe.SerializeToString(), providers=["CPUExecutionProvider"])
    (image,) = session.get_inputs()
    operand = np.random.default_rng(1).uniform(-1, 1, image.shape).astype(np.float32)
    factor = np.float32(SPREAD / session.run([softmax.input[0]], {image.name: operand})[0].std())
    for each in graph.initializer:
        if each.name in last.input[1:]:
            each.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(each) * factor, each.name))
    return model


def main(folder: str, *names: str) -> None:
    """Write the models `names` into the directory `folder`. Without names, write all models of `NAMES`."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name in names or NAMES:
        to = Path(folder) / f"{name}.onnx"
        onnx.save(spread(filled(onnx.load(LIGHT / f"light_{name}.onnx"))), to)
        print(f"{to}  {to.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: fill_onnx.py DIRECTORY [NAME …]")
    main(*sys.argv[1:])
