"""Members of a registry folder know what begins with `_`, never each other: a file can be added or taken away alone."""

import ast
from pathlib import Path

import pytest

import dispatchflow

PACKAGE = Path(dispatchflow.__file__).parent
MEMBERS = [path for folder in ("operations", "tunings") for path in sorted((PACKAGE / folder).glob("[!_]*.py"))]


def imports(path):
    """Full names of the modules that this file imports from, at any depth."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    plain = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    return plain + [node.module for node in nodes if isinstance(node, ast.ImportFrom)]


@pytest.mark.parametrize("path", MEMBERS, ids=lambda path: f"{path.parent.name}.{path.stem}")
def test_member_imports_no_other_member(path):
    folder = f"dispatchflow.{path.parent.name}"
    assert all(name.startswith(f"{folder}._") for name in imports(path) if name.startswith(f"{folder}."))


def test_there_are_members():
    assert {path.stem for path in MEMBERS} >= {"matmul", "default", "data_tiling", "double_tiling"}
