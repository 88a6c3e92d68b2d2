"""Build the actions for a user's module: print it, make its operands, make its expected results.

An action describes one step of the work. It lists everything that the outputs of the step depend on. An ONNX
model is imported before it is printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dispatchflow.cases.module import Module
from dispatchflow.engine import source_files
from dispatchflow.engine.actions import PRINTING, VERIFICATION, Action, Call, Data, called, single, sources
from dispatchflow.keys import Digest


def reprint(module: Module, toolchain: Digest, importer: str | None = None) -> Action:
    """Return the `emit` action of a user's module: the compiler parses the file and prints it.

    For a model, `importer` is the version of the package that imports the model. The action then has a second output,
    `labelled`: the module as text, with the names of the model's nodes as locations."""
    objects = tuple((path, file.digest) for path, file in module.objects)
    more: dict[str, Any] = {}
    if module.importer is not None:
        script = sources(f"models/_import_{module.importer}.py")
        more = {"importer": module.importer, "importer_version": importer, "importer_source": script}
    return single("emit", source=module.source.digest, objects=objects, toolchain=toolchain, protocol=PRINTING, **more)


def arguments(module: Module, types: Sequence[str], printed: Digest) -> Action:
    """Return the action that makes a module's operands.

    The outputs `given_0`, `given_1`, … are the operands. The other outputs are the files with weights. `types` has the
    operands' declared types. `printed` is the digest of the module's printed text."""
    weights: dict[str, Any] = {}
    if module.parameters:
        files = tuple(item.file.digest for item in module.parameters)
        # The sizes and element types in the files are checked against those in the printed text.
        weights = {"parameters": tuple(zip(module.parameter_values, files, strict=True)), "module": printed}
    if module.problem is not None:
        weights["problem"] = module.problem
    given = [(i.type, i.value, i.file.identity if i.file else None) for i in module.inputs or ()]
    return single(
        "inputs",
        types=tuple(types),
        given=None if module.inputs is None else tuple(given),
        source=sources(
            "verification/module_data.py",
            "verification/ranges.py",
            "operations/_random.py",
            "verification/inputs.py",
            "mlir/types.py",
        ),
        **source_files.versions(),
        **weights,
    )


def expected_files(module: Module, results: Sequence[str]) -> Action:
    """Return the action that reads a module's expected results from the user's files and values.

    The outputs `0`, `1`, … are the results. The output `types` lists the type of each result, one per line."""
    files = tuple(item if isinstance(item, str) else item.identity for item in module.expected)
    return single(
        "expected", files=files, results=tuple(results), source=sources("verification/module_data.py", "mlir/types.py")
    )


def expected_from(call: Call, operands: Data, results: Sequence[str]) -> Action:
    """Return the step that computes a module's expected results on the reference target.

    `call` calls the same module, compiled for the reference target. `results` has the type of each result."""
    return called("expected", call, operands, results=tuple(results), types=True, protocol=VERIFICATION)


def expected_from_library(module: Module, version: str, operands: Data, results: Sequence[str]) -> Action:
    """Return the action that computes a model's expected results with a library.

    `version` is the library's version. The outputs `0`, `1`, … are the results. The output `types` lists the type of
    each result, one per line."""
    return single(
        "expected",
        library=module.against_library,
        version=version,
        script=sources(f"libraries/_{module.against_library}.py"),
        source=module.source.digest,
        objects=tuple((path, file.digest) for path, file in module.objects),
        arguments=operands.arguments,
        data=dict(operands.digests),
        results=tuple(results),
    )
