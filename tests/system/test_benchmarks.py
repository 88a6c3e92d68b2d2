import subprocess
import sys

import pytest
from support.project import REPOSITORY
from support.tools import environment

sys.path.append(str(REPOSITORY))
from benchmarks.traced_doit import covered


def test_seconds_inside_tools_are_counted_once():
    assert covered([(0.0, 2.0), (1.0, 3.0), (1.5, 1.6), (5.0, 6.0)]) == 4.0
    assert covered([]) == 0.0


@pytest.mark.iree
def test_benchmarks_print_a_line_for_each_part():
    # The benchmark `noop` itself asserts that dispatchflow and ninja have no work to do.
    words = [
        "--only",
        "noop",
        "--only",
        "looks",
        "--only",
        "cold",
        "--only",
        "same",
        "--cases",
        "20",
        "--compiles",
        "1",
        "--comparisons",
        "1",
        "--pairs",
        "1",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *words],
        cwd=REPOSITORY,
        env=environment({}),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    table = [line.split(" | ") for line in done.stdout.split("\n\n")[1].splitlines()[2:]]
    assert len(table) == 4 + 4 + 1 + 1, done.stdout
    assert all(len(cells) == 5 for cells in table)
    assert all(float(cells[3]) > 0 for cells in table[:9]), done.stdout


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--cases", "0"), "above 0"),
        (("--cases", "15"), "multiple of ten"),
        (("--protocol", "bogus"), "invalid choice"),
    ],
)
def test_benchmarks_refuse_invalid_options(words, why):
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--only", "noop", *words],
        cwd=REPOSITORY, env=environment({}), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert why in done.stderr
    assert "Traceback" not in done.stderr


def test_a_benchmark_without_ninja_prints_how_to_install_it(tmp_path):
    code = "import sys; from benchmarks import __main__ as b, ninja; ninja.NINJA = '/nothing'; sys.argv[1:] = ['--only', 'noop']; b.main()"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, env=environment({}), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (
        2,
        "noop compares with ninja, which is not installed here: pip install -e '.[dev]'\n",
    )
