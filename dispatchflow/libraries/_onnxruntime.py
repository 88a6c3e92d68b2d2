"""Compute a model's results with onnxruntime.

This script does not import dispatchflow. It writes the results to files as raw bytes, and prints their types as
JSON."""

import argparse
import json
import sys

_ELEMENTS = {"f": "f", "i": "i", "u": "i", "b": "i1"}  # numpy's kind of type → the first letter of the MLIR type


def _arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--path", help="where Python finds the library")
    parser.add_argument("--input", action="append", default=[], help="4x8:FILE, an operand in the model's own type")
    parser.add_argument("--output", required=True, help="the results are written to OUTPUT_0.bin, …")
    return parser.parse_args()


_TYPES = {"float": "float32", "double": "float64", "bool": "bool", "bfloat16": "bfloat16"}


def _read(declared, word):
    import ml_dtypes  # noqa: F401 (registers the names of its types with numpy.dtype)
    import numpy

    sizes, path = word.split(":", 1)
    name = declared.type.removeprefix("tensor(").removesuffix(")")
    with open(path, "rb") as stream:
        flat = numpy.frombuffer(stream.read(), _TYPES.get(name, name))
    return flat.reshape([int(size) for size in sizes.split("x") if size])


def _spelling(array):
    kind = array.dtype.kind
    if kind not in _ELEMENTS:
        return ""
    element = "i1" if kind == "b" else f"{_ELEMENTS[kind]}{8 * array.dtype.itemsize}"
    return "x".join([*map(str, array.shape), element]) if array.shape else f"tensor<{element}>"


def main():
    options = _arguments()
    if options.path and options.path not in sys.path:
        sys.path.append(options.path)
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)  # its warnings are about its own optimizations
    wanted = onnxruntime.SessionOptions()
    wanted.intra_op_num_threads = wanted.inter_op_num_threads = 1
    # Optimizations may fuse or reorder the model's operations.
    wanted.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(options.model, wanted, providers=["CPUExecutionProvider"])
    declared = session.get_inputs()
    if len(declared) != len(options.input):
        raise ValueError(f"the model has {len(declared)} inputs; {len(options.input)} are given")
    operands = {each.name: _read(each, word) for each, word in zip(declared, options.input, strict=True)}
    types = []
    for index, result in enumerate(session.run(None, operands)):
        if not hasattr(result, "tobytes"):
            raise ValueError(f"result {index} is no tensor")
        types.append(_spelling(result))
        with open(f"{options.output}_{index}.bin", "wb") as stream:
            stream.write(result.tobytes())
    print(json.dumps(types))


if __name__ == "__main__":
    try:
        main()
    except Exception as error:
        sys.exit(f"error: {' '.join(str(error).split())}")
