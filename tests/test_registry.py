"""Members of a registry folder know what begins with `_`, never each other: a file can be added or taken away alone."""

import ast
import re
import sys
from itertools import count
from pathlib import Path

import pytest

import dispatchflow
from dispatchflow.errors import DispatchflowError
from dispatchflow.operations import OPERATIONS, Operation, Option, options_of
from dispatchflow.registry import members

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


PAGE = (PACKAGE.parent / "docs/adding.md").read_text()
NUMBERS = count()


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("", "", None),
        ("    def flops", "    def flop", "class RowSum is not whole:\n  file   {file}\n  lacks  flops\n"),
        ("    signatures: ", "    signature: ", "lacks  signatures"),
        ("class RowSum", "class Rowsum", "row_sum.py must define class RowSum(Operation):\n  file     {file}\n  defines  Rowsum"),
        ('= "row_sum"', '= "matmul"', "not named as its file:\n  file  {file}\n  says  name = 'matmul'"),
        ("import _mlir", "import _milr", "cannot be imported:\n  file   {file}\n  found  ImportError: cannot import name '_milr'"),
        ("    return ", "    return return ", "found  SyntaxError: invalid syntax"),
    ],
)  # fmt: skip
def test_a_file_that_holds_no_whole_class_is_named_with_what_it_lacks(old, new, says, tmp_path, monkeypatch):
    (code,) = re.findall(r'^```python\n("""y\[m\] = Σ_k x.*?)^```', PAGE, re.M | re.S)
    package = tmp_path / f"registry_{next(NUMBERS)}"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "row_sum.py").write_text(code.replace(old, new))
    monkeypatch.syspath_prepend(tmp_path)
    if says is None:
        assert [cls.__name__ for cls in members(package.name, Operation, "name")] == ["RowSum"]
        return
    with pytest.raises(DispatchflowError) as caught:
        members(package.name, Operation, "name")
    assert says.format(file=package / "row_sum.py") in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("dims", "values", "says"),
    [
        (("m",), ("sum", "max"), None),
        (("m",), range(1, 3), "'kind' is of numbers in one operation, of words in another:\n  numbers  {here}\n  words    {other}\n"),
        (("kind",), ("sum",), "'kind' is of numbers in one operation, of words in another:\n  numbers  {here}\n"),
        (("m",), (1, 2), "the values of option 'kind' are neither a range nor words:\n  file  {here}\n  says  1, 2\n"),
    ],
)  # fmt: skip
def test_a_word_of_numbers_in_one_operation_and_of_words_in_another_is_refused(dims, values, says):
    """Their column could hold only one of them."""
    reduction = OPERATIONS["reduction"]
    assert isinstance(reduction.options["kind"].values, tuple)
    other = type("Other", (reduction,), {"__module__": __name__, "dims": dims, "options": {"kind": Option(values, "")}})
    for order in [(reduction, other), (other, reduction)]:
        if says is None:
            assert options_of(order)["kind"] is order[1].options["kind"]
            continue
        with pytest.raises(DispatchflowError) as caught:
            options_of(order)
        assert says.format(here=__file__, other=sys.modules[reduction.__module__].__file__) in str(caught.value)
        assert caught.value.exit_code == 2
