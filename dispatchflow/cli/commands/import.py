"""`doit import` converts a PyTorch module to MLIR."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dispatchflow import units
from dispatchflow.cli.commands._base import QueryCommand, no_words
from dispatchflow.errors import SpecError, escaped
from dispatchflow.project import torch_import
from dispatchflow.project.torch_import import Imported

_DEMOTE = "--iree-input-demote-f64-to-f32=true"


class ImportCommand(QueryCommand):
    name = "import"
    page = "docs/models.md"
    doc_purpose = (
        "import a PyTorch module; usage: doit import file=gpt.py:make out=ir/gpt.mlir, "
        "where make() returns (module, arguments)"
    )
    groups = ("file", "out", "compile_limit", "memory_limit")

    def execute(self, params: Any, args: list[str]) -> int:
        no_words(self.name, args)
        workspace = self.app.workspace(self.groups)
        files: Sequence[str] = workspace.values.get("file", ())
        if len(files) != 1 or "out" not in workspace.values:
            form = {"form": "doit import file=gpt.py:make out=ir/gpt.mlir"}
            raise SpecError("import needs one file, and the file to write", form)
        path, function = torch_import.source_of(files[0])
        made = torch_import.imported(path, function, Path(workspace.values["out"]), workspace.settings.limits)
        print(escaped("\n".join(_lines(made, self.app.root / "specs"))))
        return 0


def _lines(made: Imported, specs: Path) -> Iterator[str]:
    files = {
        made.module: "the module, with the paths of PyTorch's modules as locations",
        made.weights: "its weights",
        made.arrays: "the example arguments, and PyTorch's results",
    }
    width = max(len(str(path)) for path in files if path)
    yield from (
        f"{path!s:<{width}}  {units.size(path.stat().st_size):>8}  {what}" for path, what in files.items() if path
    )

    def named(path: Path) -> str:
        return json.dumps(os.path.relpath(path, specs), ensure_ascii=False)[1:-1]

    yield f'\nin a spec of {specs.name}/:\n\n[[sweep]]\noperation = "module"'
    yield f'file = "{named(made.module)}"'
    words = [f"file={made.module}"]
    if made.weights:
        yield f'parameters = ["model={named(made.weights)}"]'
        words.append(f"parameters=model={made.weights}")
    inputs, results = ", ".join(made.types.inputs), ", ".join(made.types.results)
    if made.arrays:
        yield f'inputs = "@{named(made.arrays)}:in*"  # {inputs}'
        yield f'expected = "@{named(made.arrays)}:out*"  # {results}'
        words += [f"inputs=@{made.arrays}:in*", f"expected=@{made.arrays}:out*"]
    else:
        yield f"# inputs: {inputs}; results: {results}"
    if made.f64:
        yield f'# vulkan has no f64: flags = "{_DEMOTE}"'
    yield f"\nor: doit {shlex.join([*words, 'verify'])}"
    if made.no_arrays:
        yield f"no arguments and results were written: {made.no_arrays}"
