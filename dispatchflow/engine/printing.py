"""Parse and print a user's module with the compiler. An ONNX model is imported first."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path, PurePath

from dispatchflow.cases import provider
from dispatchflow.cases.module import Module
from dispatchflow.engine.call import Result, failed
from dispatchflow.engine.executor import ActionExecutor
from dispatchflow.errors import ToolError
from dispatchflow.iree import command_lines, configurations
from dispatchflow.keys import Digest
from dispatchflow.mlir.functions import declarations, foreign_format, module_name, stored, to_facts, without_resources
from dispatchflow.models import onnx_file, onnx_nodes, other_formats
from dispatchflow.store.entries import Record
from dispatchflow.store.facts import Facts
from dispatchflow.tools import processes
from dispatchflow.tools.bindings import bindings_of
from dispatchflow.tools.toolchain import printer_of

_IMPORTER = Path(__file__).parent.parent / "models" / "_import_onnx.py"
_RUNNER = Path(__file__).parent.parent / "libraries" / "_onnxruntime.py"
LABELLED = "labelled"
"""The name of the output that has an imported model as text.

The text has the names of the model's nodes as locations, and leaves out large constants."""


def printed(executor: ActionExecutor, program: Module, scratch: Path) -> Result:
    """Parse a user's MLIR file or ONNX model with IREE, and print the module as text.

    The returned value contains the text's digest and the types of the module's functions."""
    from dispatchflow.verification import module_data

    store, toolchain = executor.store, executor.resolver.toolchain
    name = PurePath(program.source.path).name
    imported: Facts = {}
    outputs: dict[str, Digest] = {}
    if program.importer is not None:
        source = "source.mlirbc"
        if (failure := _imported(executor, program, scratch, source)) is not None:
            return failure
        imported = {"imported": json.loads((scratch / "stdout").read_text(encoding="utf-8"))}
        outputs[LABELLED] = store.put_file(scratch / "labelled.mlir")
    else:
        content, source = module_data.content(program.source), "source.mlir"
        if (what := foreign_format(content)) is not None:
            return False, "; ".join(filter(None, (f"{name} {what}", other_formats.hint(name)))), {}, {}
        (scratch / source).write_bytes(content)
    outcome = executor.run_compiler(command_lines.reprint_argv(printer_of(toolchain), source), scratch, None)
    if outcome.failure:
        return failed(f"cannot parse {name}", outcome, scratch, {}, store, executor.limits)
    text = (scratch / "module.mlir").read_bytes().decode(errors="surrogateescape")
    if program.importer is None:
        named, text = module_data.objects(program, text)
        outputs |= {name: store.put_bytes(content) for name, content in named.items()}
    outputs["module"] = store.put_bytes(text.encode(errors="surrogateescape"))
    code = without_resources(text)
    functions, asks = to_facts(declarations(code)), configurations.requested_by(code)
    facts: Facts = {"name": module_name(code), "functions": functions, "asks": asks, "stored": stored(code)}
    return True, None, outputs, {**facts, **imported}


def _imported(executor: ActionExecutor, program: Module, scratch: Path, to: str) -> Result | None:
    """Import a model, and write it to the file `to` and to the file `labelled.mlir`.

    `labelled.mlir` has the names of the model's nodes as locations. Returns None if the import succeeds. Otherwise
    returns the failed result."""
    model = _placed(program, scratch)
    argv = (
        sys.executable,
        "-I",
        str(_IMPORTER),
        model,
        f"--bindings={bindings_of(executor.resolver.toolchain).folder}",
        f"--path={_folder(executor, 'onnx')}",
        f"--module={to}",
        "--labelled=labelled.mlir",
    )
    outcome = executor.run_compiler(argv, scratch, None)
    if not outcome.failure:
        return None
    return failed(f"cannot import {PurePath(model).name}", outcome, scratch, {}, executor.store, executor.limits)


def expected(executor: ActionExecutor, program: Module, scratch: Path, results: int) -> Result:
    """Compute a model's expected results with a library, such as onnxruntime.

    `results` is the number of the model's results. Returns a failure if the library computes another number of results.
    """
    from dispatchflow.cases import module
    from dispatchflow.engine import verify_module

    assert program.against_library is not None
    store, data = executor.store, executor.resolver.supplies.operands(program)
    assert data is not None
    store.place(scratch, files := data.files("given"))
    sizes = ["x".join(map(str, module.sizes_of(argument) or ())) for argument in data.arguments]
    argv = (
        sys.executable,
        "-I",
        str(_RUNNER),
        _placed(program, scratch),
        f"--path={_folder(executor, program.against_library)}",
        *(f"--input={size}:{file}" for size, file in zip(sizes, files, strict=True)),
        "--output=result",
    )
    command = processes.Command(
        argv, scratch, {"LC_ALL": "C"},
        time_limit_s=executor.limits.run_s, memory_limit_bytes=executor.limits.memory_bytes,
    )  # fmt: skip
    outcome = processes.run(command)
    if outcome.failure:
        ok, reason, outputs, facts = failed("run", outcome, scratch, {}, store, executor.limits)
        return ok, f"{program.reference_name}: {reason}", outputs, facts
    types = json.loads((scratch / "stdout").read_text(encoding="utf-8"))
    if len(types) != results:
        return False, f"{program.reference_name}: it gives {len(types)} results, the imported model {results}", {}, {}
    made = {str(index): store.put_file(scratch / f"result_{index}.bin") for index in range(len(types))}
    return True, None, made | verify_module.put_types(store, types), {}


def explainer(executor: ActionExecutor, record: Record) -> Callable[[str, str], str]:
    """Return a function that improves the error message of a model's failed compile.

    The function takes the compiler's log and the error message. It adds the name of the model's node at which the
    compile failed. If the log does not show the node, the message is returned unchanged. `record` is the record of the
    step that printed the module."""

    def explained(log: str, reason: str) -> str:
        if LABELLED not in record.outputs:
            return reason
        texts = [executor.store.path(record.outputs[name]).read_text(errors="replace") for name in ("module", LABELLED)]
        if (node := onnx_nodes.blamed(log, *texts)) is None:
            return reason
        said = reason.removeprefix("compile failed: ")
        return f"compile failed: {node}, opset {record.facts['imported']['opset']}: {said}"

    return explained


def _folder(executor: ActionExecutor, package: str) -> str:
    found = executor.resolver.supplies.installed(package)
    assert found is not None
    return found.folder


def _placed(program: Module, scratch: Path) -> str:
    """Write the files of a model and its weights to `scratch`; return the name of the model's file."""
    from dispatchflow.verification import module_data

    if (problem := provider.misplaced(program) or missing_weights(program)) is not None:
        raise ToolError(problem)
    files = provider.model_files(program)
    for name, file in files.items():
        (scratch / name).parent.mkdir(parents=True, exist_ok=True)
        (scratch / name).write_bytes(module_data.content(file))
    return next(iter(files))


def missing_weights(program: Module) -> str | None:
    """Return an error message if a file with a model's weights was not found; None if all were found."""
    from dispatchflow.verification import module_data

    model, found = PurePath(program.source.path).name, {path for path, _ in program.objects}
    for path, tensor in onnx_file.weight_files(module_data.content(program.source)).items():
        if path not in found:
            problem = f"cannot import {model}: its data file {path}, with tensor '{tensor}', is missing or unreadable"
            return f"{problem}; keep it beside {model}, at this path relative to it"
    return None
