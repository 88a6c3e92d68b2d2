"""Each command of the README runs in a copy of this repository with a small spec."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.project import REPOSITORY, sweep
from support.tools import LIMIT_S, Outcome, environment

pytestmark = pytest.mark.iree

README = (REPOSITORY / "README.md").read_text()
# The cases of README's examples in small sizes, which take little time.
SPEC = sweep(m=16, n=16, k=16, tuning=["default", "data_tiling"]) + sweep(
    m=32, n=32, k=32, target="vmvx", tuning=["default", "double_tiling"]
)


def block(heading: str, number: int = 0) -> list[str]:
    """Return the lines of one `sh` block below a heading of the README, without comments.

    `number` is the block's place below this heading, counted from 0."""
    section = re.split(r"^## ", README, flags=re.MULTILINE)
    (text,) = [part for part in section if part.startswith(f"{heading}\n")]
    lines = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[number].splitlines()
    return [re.sub(r"\s+# .*", "", line) for line in lines]


EVERY_DAY = block("Every day")
SMALLER = {"matmul_512*": "matmul_16*", "m=64:1024:128": "m=8:24:16", "n=512": "n=8", "k=4096": "k=8"}


def smaller(word: str) -> str:
    for large, small in SMALLER.items():
        word = word.replace(large, small)
    return word


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("readme") / "dispatchflow"
    left_out = shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__")
    shutil.copytree(REPOSITORY, root, ignore=left_out)
    shutil.rmtree(root / "specs")
    (root / "specs").mkdir()
    (root / "specs/matmul.toml").write_text(SPEC)
    shutil.copy(REPOSITORY / "specs/tanh.mlir", root / "specs")
    return root


def run(line: str, tree: Path) -> Outcome:
    """Run a command line of the README in the directory `tree`, with smaller sizes.

    A command that measures, or shows what would be measured, also gets `protocol=fast`."""
    program, *words = map(smaller, shlex.split(line))
    assert Path(program).name == "doit"
    measured = words[0].startswith(("profile", "explain", "plan")) or "=" in words[0]
    words += ["protocol=fast"] if measured else []
    found = subprocess.run(
        [sys.executable, "-m", "doit", *words], cwd=tree, env=environment({"PYTHONPATH": str(tree)}),
        capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    # Another project on this machine may be measuring, so that this run waits and prints that.
    told = [line for line in found.stderr.splitlines(True) if not line.startswith("waiting for ")]
    outcome = Outcome(found.returncode, found.stdout, "".join(told))
    assert "Traceback" not in found.stdout + found.stderr, str(outcome)
    return outcome


def test_the_readmes_first_run_second_run_and_daily_commands_work(tree: Path) -> None:
    # This is one test: several tests may run in several workers, and each worker would need the first run.
    # The first two parts of the line are an installation, which CI does.
    *installation, first = block("First run")[0].split(" && ")
    assert installation == ["python3 -m venv .venv", ".venv/bin/pip install -q -e ."]

    made = run(first, tree)

    assert made.code == 0, str(made)
    header = next(line for line in made.out.splitlines() if line.startswith("case "))
    assert header.split() == next(line for line in README.splitlines() if line.startswith("case ")).split()
    assert re.search(r"^\d+ cases(?: \(and \d+ skipped\))?: .*measured in ", made.out.splitlines()[-1])

    again = run(first, tree)

    assert again.code == 0, str(again)
    shown = next(line for line in README.splitlines() if ": up to date (" in line)
    assert re.sub(r"[\d.]+ ?\w?s$|\d+", "N", shown) == re.sub(r"[\d.]+ ?\w?s$|\d+", "N", again.out.splitlines()[-1])

    outcomes = {line: run(line, tree) for line in EVERY_DAY}

    failed = {line: found for line, found in outcomes.items() if found.code or found.err or not found.out.strip()}
    assert not failed, "\n".join(f"{line}: {found}" for line, found in failed.items())


def test_every_day_has_commands() -> None:
    assert len(EVERY_DAY) >= 5
    assert all(line.startswith("doit ") for line in EVERY_DAY)
    unused = [large for large in SMALLER if not any(large in line for line in EVERY_DAY)]
    assert unused == []


def test_the_two_lines_of_a_project_are_a_project(tree: Path, tmp_path: Path) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    assert len([line for line in code.splitlines() if line]) == 2
    (tmp_path / "dodo.py").write_text(code)
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs/a.toml").write_text(SPEC)

    outcome = run("doit list --all profile", tmp_path)

    assert (outcome.code, len(outcome.out.splitlines())) == (0, 3), str(outcome)


def test_our_own_tasks_are_listed_in_this_tree(tree: Path) -> None:
    listed = {line.split()[0] for line in run("doit list", tree).out.splitlines() if line}

    assert {"check", "test", "profile"} <= listed


def test_the_own_spec_of_this_tree_is_a_plan() -> None:
    outcome = run("doit list --all profile", REPOSITORY)

    assert outcome.code == 0, str(outcome)
    names = [line.removeprefix("profile:") for line in outcome.out.splitlines()]
    example = next(
        word for line in EVERY_DAY for word in line.split() if word.startswith("'profile:") and "*" not in word
    )
    assert example.strip("'").removeprefix("profile:") in names
    summary = next(line for line in README.splitlines() if ": up to date (" in line)
    assert int(summary.split()[0]) == len(names)


def test_ci_runs_exactly_what_readme_says() -> None:
    (command,) = block("Tests")
    script = (REPOSITORY / ".ci/run").read_text().splitlines()

    assert script.count(command) == 1
    assert script[-1] == command


def test_every_link_of_readme_leads_somewhere() -> None:
    links = re.findall(r"\]\(((?!https?:)[^)#]+)\)", README)

    assert len(links) > 5
    assert [link for link in links if not (REPOSITORY / link).exists()] == []
