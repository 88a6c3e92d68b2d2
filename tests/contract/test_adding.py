"""The operation and the commands of docs/adding.md work in a copy of this repository."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.project import REPOSITORY
from support.tools import LIMIT_S, environment

from dispatchflow.operations import OPERATIONS

pytestmark = pytest.mark.iree

PAGE = (REPOSITORY / "docs/adding.md").read_text()


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of this repository with the operation that docs/adding.md shows."""
    root = tmp_path_factory.mktemp("adding") / "dispatchflow"
    left_out = shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__")
    shutil.copytree(REPOSITORY, root, ignore=left_out)
    (code,) = re.findall(r'^```python\n("""y\[m\] = Σ_k x.*?)^```', PAGE, re.M | re.S)
    (root / "dispatchflow/operations/row_sum.py").write_text(code)
    return root


def python(tree: Path, *words: str) -> str:
    variables = environment({"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": ""})
    found = subprocess.run(
        [sys.executable, "-m", *words], cwd=tree, env=variables,
        capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def test_one_file_adds_an_operation(tree: Path) -> None:
    words = [
        "operation=row_sum",
        "m=16",
        "k=40",
        "dtype=f32,i32",
        "kind=sum,difference",
        "target=llvm-cpu,vmvx",
        "threads=1",
        "verify",
    ]

    out = python(tree, "doit", *words)

    assert "8 cases: 8 compiled, 8 verified" in out.replace("4 emitted, ", "")


def test_the_pages_commands_write_the_files_of_a_new_operation_and_tests_cover_it(tree: Path) -> None:
    (block,) = re.findall(r"^```sh\n(doit docs\n.*?)^```", PAGE, re.M | re.S)
    for line in block.splitlines():
        python(tree, *line.split())
    assert "## row_sum" in (tree / "docs/operations.md").read_text()
    assert (tree / "tests/golden/row_sum_4x4_f32t_f32t.mlir").is_file()

    # First the tests without a compiler, in files that import `OPERATIONS`, except those of other operations. Then the
    # tests of planted errors in compiled modules.
    known = re.compile(r"^from dispatchflow\.operations import .*\bOPERATIONS\b", re.M)
    paths = [path for path in sorted(tree.glob("tests/**/test_*.py")) if known.search(path.read_text())]
    files = [str(path.relative_to(tree)) for path in paths]
    others = " or ".join((*OPERATIONS, "planned_at_once"))
    out = python(tree, "pytest", *files, "-k", f"row_sum or not ({others})", "-m", "not iree and not slow", "-vv")
    out += python(tree, "pytest", "tests/contract/test_plants.py", "-k", "row_sum", "-m", "iree and not slow", "-vv")

    covered = {re.split(r"\[| ", line.split("::")[1])[0] for line in out.splitlines() if "PASSED" in line}
    assert covered > {
        "test_module_is_the_golden_one",
        "test_the_page_of_operations_is_current",
        "test_partial_sums_of_exact_inputs_are_exact",
        "test_an_error_in_an_operand_is_detected_unless_the_result_is_the_same",
        "test_an_error_in_a_compiled_module_is_detected",
        "test_without_an_operation_a_class_is_swept_by_all_operations_that_have_it",
        "test_a_wrong_shape_is_an_error_that_lists_the_known_shapes",
        "test_an_operation_s_word_that_no_sweep_knows_is_refused",
    }
