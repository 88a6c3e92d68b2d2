"""The file of an operation or tuning imports dispatchflow code only from its own folder.

In this folder, it imports only `api.py` and files named `_*.py`. A new file is refused with a message if its class is
incomplete or misnamed, or if the names or values of its options are not allowed."""

import ast
import re
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

import dispatchflow
from dispatchflow.errors import DispatchflowError
from dispatchflow.operations import OPERATIONS, Operation, Option
from dispatchflow.operations._checks import options_of
from dispatchflow.registry import FACE, members

PACKAGE = Path(dispatchflow.__file__).parent
FILES = [path for folder in ("operations", "tunings") for path in sorted((PACKAGE / folder).glob("*.py"))]
MEMBERS = [path for path in FILES if not path.stem.startswith("_") and path.stem != FACE]


def imports(path):
    nodes = list(ast.walk(ast.parse(path.read_text())))
    assert not any(isinstance(node, ast.ImportFrom) and node.level for node in nodes), "a relative import"
    plain = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    taken = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    return plain + [f"{node.module}.{alias.name}" for node in taken for alias in node.names]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}.{path.stem}")
def test_a_file_imports_only_shared_files_of_its_own_folder(path):
    # Contracts in pyproject.toml decide what these files may import from other folders.
    folder = f"dispatchflow.{path.parent.name}"
    own = [name for name in imports(path) if f"{name}.".startswith(f"{folder}.")]
    assert [name for name in own if not name.startswith((f"{folder}._", f"{folder}.{FACE}."))] == []


@pytest.mark.parametrize("path", MEMBERS, ids=lambda path: f"{path.parent.name}.{path.stem}")
def test_a_member_imports_nothing_of_other_folders(path):
    # A member imports from its folder's `api.py` instead, so that files elsewhere can move.
    folder = f"dispatchflow.{path.parent.name}."
    assert [name for name in imports(path) if name.startswith("dispatchflow") and not name.startswith(folder)] == []


def test_there_are_members():
    assert {path.stem for path in MEMBERS} >= {"matmul", "default", "data_tiling", "double_tiling"}


PAGE = (PACKAGE.parent / "docs/adding.md").read_text()
NUMBERS = count()


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("", "", None),
        ("    def flops", "    def flop", "class RowSum is incomplete:\n  file     {file}\n  missing  flops\n"),
        ("    signatures: ", "    signature: ", "missing  signatures"),
        ("class RowSum", "class Rowsum", "row_sum.py must define class RowSum(Operation):\n  file     {file}\n  defines  Rowsum"),
        ('= "row_sum"', '= "matmul"', "not named like its file:\n  file  {file}\n  says  name = 'matmul'"),
        ("signature, snippets", "signature, snipets", "cannot be imported:\n  file   {file}\n  found  ImportError: cannot import name 'snipets'"),
        ("    return ", "    return return ", "found  SyntaxError: invalid syntax"),
    ],
)  # fmt: skip
def test_an_incomplete_class_is_reported_with_its_file_and_what_is_missing(old, new, says, tmp_path, monkeypatch):
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
        (("m",), range(1, 3), "'kind' has numbers in one operation and words in another:\n  numbers  {here}\n  words    {other}\n"),
        (("kind",), None, "'kind' has numbers in one operation and words in another:\n  numbers  {here}\n"),
        (("m",), (1, 2), "the values of option 'kind' are neither a range nor words of letters, digits, _, +, - and .:\n  file  {here}\n  says  (1, 2)\n"),
    ],
)  # fmt: skip
def test_an_option_with_numbers_in_one_operation_and_words_in_another_is_refused(dims, values, says):
    # An option is one column of the results, which holds only numbers or only words.
    reduction = OPERATIONS["reduction"]
    assert isinstance(reduction.options["kind"].values, tuple)
    options = {} if values is None else {"kind": Option(values, "")}
    other = type("Other", (reduction,), {"__module__": __name__, "dims": dims, "options": options})
    for order in [(reduction, other), (other, reduction)]:
        if says is None:
            assert options_of(order)["kind"] is order[1].options["kind"]
            continue
        with pytest.raises(DispatchflowError) as caught:
            options_of(order)
        assert says.format(here=__file__, other=sys.modules[reduction.__module__].__file__) in str(caught.value)
        assert caught.value.exit_code == 2


KIND = {"kind": Option(("sum",), "")}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"options": {"kind": Option((), "")}}, "the values of option 'kind' are neither a range nor words of letters, digits, _, +, - and .:\n  file  {}\n  says  ()\n"),
        ({"options": {"kind": Option(range(0), "")}}, "neither a range nor words"),
        ({"options": {"sign": Option(("plus", "mi,nus"), "")}}, "says  ('plus', 'mi,nus')"),
        ({"options": {"kind": Option("sum", "")}}, "says  'sum'\n"),
        ({"options": {"kind": Option({"sum", "max"}, "")}}, "neither a range nor words"),
        ({"options": None}, "options of pooling must be words, each with an Option(…):\n  file  {}\n  says  None\n"),
        ({"options": ["kind"]}, "options of pooling must be"),
        ({"signatures": {}}, "signatures of pooling must be words, each with a signature(…):\n  file  {}\n  says  {{}}\n"),
        ({"signatures": {"f32": "f32->f32"}}, "signatures of pooling must be"),
        ({"layouts": ()}, "layouts of pooling must be a tuple of words:\n  file  {}\n  says  ()\n"),
        ({"dims": "mk"}, "dims of pooling must be a tuple of words:\n  file  {}\n  says  'mk'\n"),
        ({"options": {"sign": Option(("a/b",), "")}}, "neither a range nor words"),
        ({"options": {"kind": range(1, 3)}}, "options of pooling must be words, each with an Option(…):\n  file  {}\n  says  {{'kind': range(1, 3)}}\n"),
        ({"options": {"Big-word": Option(("a",), "")}}, "'Big-word' is not a word of letters, digits and _:\n  file  {}\n"),
        ({"dims": ("b", "j", "j")}, "'j' appears twice among dimensions and options:\n  file  {}\n  says  b, j, j, kind\n"),
        ({"dims": ("b", "kind")}, "'kind' appears twice"),
    ],
)  # fmt: skip
def test_words_that_cannot_be_written_are_refused(words, says):
    other = type("Other", (OPERATIONS["pooling"],), {"__module__": __name__, "dims": ("b",), "options": KIND, **words})
    with pytest.raises(DispatchflowError) as caught:
        options_of([other])
    assert says.format(__file__) in str(caught.value)


@pytest.mark.parametrize(
    ("word", "by"),
    [
        ("reason", "a column of every row"),
        ("median_ns", "a column of every row"),
        ("top", "a word of every spec, or a variable"),
        ("inputs", "a word of every spec, or a variable"),
        ("exclude", "a word of every spec, or a variable"),
        ("percent_of_best_provider", "a column of reports"),
        ("speedup", "a column of reports"),
    ],
)
@pytest.mark.parametrize("words", ["'dims': ('m', '{}')", "'options': {{'{}': Option(('a', 'b'), '')}}"])
def test_options_whose_name_already_has_another_meaning_are_refused(word, by, words):
    # Otherwise the option's values would be lost.
    body = f"{{'__module__': 'dispatchflow.operations.matmul', {words.format(word)}}}"
    lines = [
        "from dispatchflow.operations import OPERATIONS, Option",
        f"OPERATIONS['other'] = type('Other', (OPERATIONS['matmul'],), {body})",
        "import dispatchflow.results.parquet, dispatchflow.cli.variables",
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    assert f"'{word}' is {by}:\n  file  {PACKAGE / 'operations/matmul.py'}\n" in done.stderr
