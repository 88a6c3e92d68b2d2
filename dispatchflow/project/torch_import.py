"""Import a PyTorch module: write MLIR, weights, and example inputs and results, for use in specs."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dispatchflow.errors import DispatchflowError, SpecError, ToolError, suggestion
from dispatchflow.mlir.functions import Declaration, declarations
from dispatchflow.project.new_folder import new_folder
from dispatchflow.tools import processes
from dispatchflow.tools.limits import Limits

_SCRIPT = Path(__file__).parent.parent / "models" / "_import_torch.py"
MAKE = "make"
"""The name of the function that is called if the user names none."""


@dataclass(frozen=True, slots=True)
class Imported:
    module: Path
    weights: Path | None
    """The file with the weights; None if the module has no weights."""
    arrays: Path | None
    """The file with the example arguments `in0`, … and the results `out0`, … as arrays.

    None if numpy does not have the element type of an argument or a result."""
    no_arrays: str | None
    """The reason why `arrays` is None; None if there is a file with arrays."""
    function: str
    types: Declaration
    f64: bool
    """True if the module has numbers in f64, which the target `vulkan` does not support."""


def source_of(word: str) -> tuple[Path, str]:
    """Split a text such as `gpt.py:make` into the file's absolute path and the function's name.

    Without a function in the text, the name is `make`.

    Raises:
        SpecError: there is no such file, or its name does not end in `.py`.
    """
    name, _, function = word.partition(":")
    path = Path(name).absolute()
    if path.suffix != ".py":
        hint = "ONNX and MLIR files need no import: specs name them." if path.suffix in (".onnx", ".mlir") else ""
        raise SpecError(f"import takes a Python file: file={word}", {"form": "file=gpt.py:make"}, hint)
    if not path.is_file():
        near = suggestion(path.name, [each.name for each in path.parent.glob("*.py")])
        raise SpecError(f"there is no file '{name}'", {"given": f"file={word}"}, near)
    return path, function or MAKE


def imported(file: Path, function: str, out: Path, limits: Limits) -> Imported:
    """Write a PyTorch module to the file `out`, as MLIR.

    The function `function` of the user's Python file `file` returns this module. Weights, example arguments and results
    are written beside `out`. After a failure, earlier files are unchanged.

    Raises:
        SpecError: packages or `function` are missing, `function` does not return the pair (module, example arguments),
            an example argument is not a tensor, or `out` is not a writable `.mlir` file.
        ToolError: the user's code fails, or the module cannot be exported.
    """
    if out.suffix != ".mlir":
        raise SpecError(f"out={out} must end with .mlir", {"form": "out=ir/gpt.mlir"})
    with ExitStack() as stack:
        try:
            stack.enter_context(new_folder(out.parent))
            made = tempfile.TemporaryDirectory(prefix=f".{out.stem}-", dir=out.parent, ignore_cleanup_errors=True)
            scratch = Path(stack.enter_context(made))
        except OSError as error:
            raise SpecError(f"out={out} cannot be written", {"found": error.strerror}) from error
        facts = _run(file, function, scratch, limits)
        found = declarations((scratch / "new.mlir").read_text(encoding="utf-8"))
        ((name, types),) = found.items()
        if (facts["inputs"], facts["results"]) != (len(types.inputs), len(types.results)):
            given = f"{facts['inputs']} tensors in, {facts['results']} out"
            has = {"given": given, "exported": f"{len(types.inputs)} inputs, {len(types.results)} results"}
            raise SpecError(f"the example arguments of {function}() must all be tensors", has)
        weights, arrays, module = (_moved(scratch / f"new{end}", out) for end in (".irpa", ".npz", ".mlir"))
        assert module is not None
        return Imported(module, weights, arrays, facts["no_arrays"], name, types, facts["f64"])


def _moved(made: Path, out: Path) -> Path | None:
    return made.replace(out.with_suffix(made.suffix)) if made.exists() else None


def _run(file: Path, function: str, scratch: Path, limits: Limits) -> dict[str, Any]:
    told = scratch / "facts.json"
    argv = (
        sys.executable,
        "-P",  # the script's folder has a file site.py, which would hide Python's module `site`
        str(_SCRIPT),
        str(file),
        function,
        f"--module={scratch / 'new.mlir'}",
        f"--weights={scratch / 'new.irpa'}",
        f"--arrays={scratch / 'new.npz'}",
        f"--facts={told}",
    )
    command = processes.Command(
        argv, Path.cwd(), os.environ,
        time_limit_s=limits.compile_s, memory_limit_bytes=limits.memory_bytes,
    )  # fmt: skip
    outcome, _, stderr = processes.answer(command)
    facts: dict[str, Any] = json.loads(told.read_text(encoding="utf-8")) if told.exists() else {}
    if "problem" in facts:
        kind: type[DispatchflowError] = SpecError if facts["wrong_input"] else ToolError
        raise kind(facts["problem"], {}, facts["hint"])
    if (failure := limits.failure("compile_limit", outcome, stderr)) is not None:
        lines = stderr.splitlines()
        raise ToolError(f"cannot import {file.name}: {failure}", {"last line": lines[-1]} if lines else {})
    return facts
