"""`doit import` prints a spec and a command that can be used as they are."""

from __future__ import annotations

import importlib
import shlex
import tomllib
from pathlib import Path

from dispatchflow.mlir.functions import Declaration
from dispatchflow.project.torch_import import Imported


def test_paths_with_quotes_are_written_as_toml_and_the_shell_read_them(tmp_path: Path) -> None:
    files = [tmp_path / f'my "net".{suffix}' for suffix in ("mlir", "irpa", "npz")]
    for file in files:
        file.touch()
    made = Imported(*files, None, "main", Declaration(("4xf32",), ("4xf32",)), False)

    text = "\n".join(importlib.import_module("dispatchflow.cli.commands.import")._lines(made, tmp_path / "specs"))

    toml, command = text[text.index("[[sweep]]") :].split("\nor: ")
    (sweep,) = tomllib.loads(toml)["sweep"]
    assert sweep["file"] == '../my "net".mlir' and sweep["parameters"] == ['model=../my "net".irpa']
    assert shlex.split(command)[:3] == ["doit", f"file={files[0]}", f"parameters=model={files[1]}"]
