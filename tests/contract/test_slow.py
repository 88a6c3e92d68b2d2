"""Every name in slow.toml is the name of a test; a wrong name would mark no test as slow."""

import subprocess
import sys
import tomllib

import pytest
from support.project import REPOSITORY

TABLES = tomllib.loads((REPOSITORY / "tests/slow.toml").read_text())["slow"]
SLOW = [name for table in TABLES for name in table["tests"]]
BUT = [name for table in TABLES for name in table.get("but", ())]


@pytest.mark.parametrize("name", sorted({name.partition("[")[0] for name in SLOW}))
def test_a_slow_test_is_a_function_of_its_file(name):
    file, _, function = name.partition("::")
    assert f"def {function}(" in (REPOSITORY / file).read_text()


@pytest.mark.iree  # runs with the other long tests, because it collects whole files
def test_slow_parameters_are_those_of_their_tests():
    files = sorted({name.partition("::")[0] for name in SLOW})
    words = ["-m", "pytest", "--collect-only", "-q", "-o", "addopts=", "-m", "slow", *files]
    out = subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=REPOSITORY).stdout
    found = set(out.splitlines())
    assert set(SLOW) <= found | {name.partition("[")[0] for name in found}
    words[words.index("slow")] = "not slow"
    out = subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=REPOSITORY).stdout
    assert set(BUT) <= set(out.splitlines())
