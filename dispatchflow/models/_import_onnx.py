"""Import an ONNX model as an MLIR module; this script runs as a process of its own.

The script imports only `onnx`, the toolchain's `iree.compiler` and the standard library. It writes the module twice:
as bytecode with all weights, and as text with the nodes' names as locations. The text has no large constants. The
script prints facts about the model as JSON, or an error as one line on stderr."""

import argparse
import json
import os
import sys

OPSET = 17  # IREE 3.13 does not lower all operators of older opsets (BatchNormalization, MaxPool of opset 9)
_SHOWN = 16  # the text with locations leaves out constants with more elements


def _arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--bindings", required=True, help="the folder with the toolchain's iree.compiler")
    parser.add_argument("--path", help="where Python finds onnx")
    parser.add_argument("--module", required=True, help="the bytecode to write")
    parser.add_argument("--labelled", required=True, help="the text to write")
    return parser.parse_args()


def _opset(model):
    return next((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), OPSET)


def _graphs(graph):
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                if inner.node:
                    yield from _graphs(inner)


def _read(path):
    """Read a model and infer its types; return (model, opset before conversion).

    A model with an opset below `OPSET` is converted to `OPSET`. If the model is not converted, the returned opset is
    None."""
    import onnx
    from onnx import shape_inference, version_converter

    onnx.checker.check_model(path)  # checks the file, because it cannot check more than 2 GB in memory
    model, folder, before = onnx.load(path, load_external_data=False), os.path.dirname(path), None
    if (opset := _opset(model)) < OPSET:
        before = opset
        onnx.load_external_data_for_model(model, folder)
        try:
            model = version_converter.convert_version(model, OPSET)
        except Exception as error:
            raise ValueError(f"opset {opset} cannot be converted to {OPSET}: {error}") from error
    model.graph.name = model.graph.name or "main"
    for graph in _graphs(model.graph):
        for node in graph.node:
            node.name = node.name or next(filter(None, node.output), "")
    model = shape_inference.infer_shapes(model, data_prop=True)
    if before is None:
        onnx.load_external_data_for_model(model, folder)
    return model, before


def main(options):
    if options.path and options.path not in sys.path:
        sys.path.append(options.path)
    import onnx

    model, before = _read(options.model)
    # Added after onnx and numpy are imported, because the folder of the bindings may have other versions of both.
    sys.path.insert(0, options.bindings)
    try:
        from iree.compiler import ir
        from iree.compiler.extras import onnx_importer
    except ImportError as error:
        raise ImportError(f"the toolchain's Python bindings cannot be imported: {error}") from error
    # `iree-import-onnx` calls the same importer, but prints no locations.
    info = onnx_importer.ModelInfo(model)
    module = info.create_module(ir.Context()).operation
    onnx_importer.NodeImporter.define_function(info.main_graph, module).import_all()
    module.verify()
    with open(options.module, "wb") as stream:
        module.write_bytecode(stream)
    with open(options.labelled, "w", encoding="utf-8") as stream:
        text = module.get_asm(enable_debug_info=True, large_elements_limit=_SHOWN, large_resource_limit=_SHOWN)
        stream.write(text)
    print(json.dumps({"onnx": onnx.__version__, "opset": _opset(model), "converted_from": before}))


if __name__ == "__main__":
    wanted = _arguments()
    try:
        main(wanted)
    except Exception as error:  # a traceback shows the importer's code, not the user's mistake
        name = "" if isinstance(error, ValueError | ImportError) else f"{type(error).__name__}: "
        sys.exit(f"error: {name}{' '.join(str(error).split())}".replace(wanted.model, os.path.basename(wanted.model)))
