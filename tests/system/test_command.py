"""The command `dispatchflow` behaves like `doit`."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
from support.forked import forked
from support.project import DODO, Project, sweep
from support.tools import LIMIT_S, environment, finished, rightless, wait_until

DISPATCHFLOW = (str(Path(sys.executable).parent / "dispatchflow"),)
WORDS = ("list m=1", "m=1 lst", "-f other.py list", "-f dodo.py list m=1", "m=1 help", "help task", "dumpdb", "strace")


def assert_dispatchflow_is_doit(project: Project, *lines: str) -> None:
    doit = (str(Path(sys.executable).parent / "doit"),)
    for line in lines:
        both = [project.start(*line.split(), argv=argv) for argv in (doit, DISPATCHFLOW)]
        (out, err), (our_out, our_err) = (process.communicate(timeout=LIMIT_S) for process in both)
        assert both[1].returncode == both[0].returncode, (line, our_err)
        assert _told(our_out) == _told(out), line
        assert _told(our_err)[-1:] == _told(err)[-1:], line
        # To save time, most tests run `doit` as such a fork, so it must behave like `doit` too.
        third = forked(line.split(), project.root, environment({}))
        assert third is not None
        (forked_out, forked_err) = third.communicate(timeout=LIMIT_S)
        assert (third.returncode, _told(forked_out)) == (both[0].returncode, _told(out)), (line, forked_err)
        assert _told(forked_err)[-1:] == _told(err)[-1:], line


def _told(text: str) -> list[str]:
    return text.replace("dispatchflow", "doit").splitlines()


@pytest.mark.parametrize("dodo", (DODO, "", "import doit\n\nassert doit.get_var('m') == '1'\n" + DODO))
def test_dispatchflow_answers_as_doit_does(tmp_path: Path, dodo: str) -> None:
    assert_dispatchflow_is_doit(
        Project.make(tmp_path / "project", dodo=dodo), *WORDS[: len(WORDS) if dodo == DODO else 2]
    )


@pytest.mark.parametrize("word", ("help", "list", "run"))
def test_dispatchflow_explains_the_commands_of_which_doit_has_its_own(word: str, tmp_path: Path) -> None:
    told = finished(Project.make(tmp_path / "project").start("help", word, argv=DISPATCHFLOW))

    assert (told.code, told.out.split()[0]) == (0, word), str(told)
    assert "USAGE" not in told.out


@pytest.mark.parametrize("dodo", ("main(", "1 / 0\n" + DODO, DODO + "1 / 0\n", "raise SystemExit(7)"))
def test_dispatchflow_reports_errors_in_a_dodo_file_as_doit_does(tmp_path: Path, dodo: str) -> None:
    assert_dispatchflow_is_doit(Project.make(tmp_path / "project", dodo=dodo), "variables")


@pytest.mark.parametrize(
    ("name", "text"),
    (("doit.cfg", "[GLOBAL]\ndodoFile = other.py"), ("pyproject.toml", '[tool.doit]\ndodoFile = "other.py"')),
)
def test_dispatchflow_takes_the_file_that_doit_is_configured_to_take(tmp_path: Path, name: str, text: str) -> None:
    project = Project.make(tmp_path / "project")
    (project.root / name).write_text(text)
    (project.root / "other.py").write_text("def task_other():\n    return {'actions': None}\n")
    assert_dispatchflow_is_doit(project, "list")


def test_paths_are_from_the_directory_of_dodo_py_or_of_d(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "project", spec=sweep())
    (project.root / "m.mlir").write_text("func.func @main() { return }\n")
    below = Project(project.root / "below")
    below.root.mkdir()
    listed = ("list", "--all", "emit")

    assert below.doit("-k", "file=m.mlir", *listed).code == 0
    assert below.doit("-k", "specs=specs/a.toml", *listed).code == 0
    assert str(project.root / "no-tree") in below.doit("-k", "iree=./no-tree", *listed).err
    assert project.doit("-d", "below", "file=../m.mlir", *listed).code == 0
    assert project.doit("-d", "below", "specs=specs/a.toml", *listed).code == 0
    assert (
        "relative to the directory of dodo.py, or to -d if given"
        in project.doit("-d", "below", "file=m.mlir", *listed).err
    )


def test_dispatchflow_is_interrupted_without_a_traceback_before_main_is_called(tmp_path: Path) -> None:
    # `touch` leaves no open file: Python ignores an interrupt while it deallocates one, and prints a message.
    began = "import time\nfrom pathlib import Path\nPath('began').touch()\ntime.sleep(60)\n"
    project = Project.make(tmp_path / "project", dodo=began + DODO)
    process = project.start("list", argv=DISPATCHFLOW)
    assert wait_until((project.root / "began").exists)
    process.send_signal(signal.SIGINT)
    outcome = finished(process)
    assert (outcome.code, "interrupted" in outcome.err) == (128 + signal.SIGINT, True)


def test_hidden_files_of_editors_and_file_systems_are_no_specs(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "project", spec=sweep())
    (project.root / "specs/.#a.toml").symlink_to("user@host.1234")  # Emacs's mark of an open file
    (project.root / "specs/._a.toml").write_bytes(b"\0\5\26\7")  # where macOS keeps attributes

    assert project.doit("list", "--all", "emit").code == 0


def test_specs_that_may_not_be_read_are_reported_as_such(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "project", spec=sweep())
    (project.root / "specs").chmod(0)

    outcome = finished(project.start("list", "--all", "emit", argv=[*rightless(), sys.executable, "-m", "doit"]))

    (project.root / "specs").chmod(0o755)
    assert (outcome.code, "the specs cannot be read" in outcome.err) == (2, True), str(outcome)


NO_THREADS = """\
import threading

def start(self):
    raise RuntimeError("can't start new thread")

threading.Thread.start = start
"""


@pytest.mark.iree
def test_a_system_without_threads_is_named(tmp_path: Path) -> None:
    outcome = Project.make(tmp_path / "project", spec=sweep(), dodo=NO_THREADS + DODO).doit("-n", "2", "compile")
    assert outcome.code == 2, str(outcome)
    assert outcome.err.startswith("doit: the system gives no more threads or processes\n")


def test_a_requested_toolchain_that_is_missing_is_an_error(tmp_path: Path) -> None:
    outcome = Project.make(tmp_path / "project").doit("toolchains", "iree=/nowhere")
    assert (outcome.code, "iree=/nowhere has no compiler" in outcome.out) == (2, True), str(outcome)
