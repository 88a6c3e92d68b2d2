"""The output of an earlier run is replayed only as long as no input of that run has changed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.echo_module import MODULE
from support.once import once
from support.project import DODO, Project, sweep
from support.tools import finished, toolchain

from dispatchflow.keys import digest_of

pytest_plugins = ["support.project"]
real = pytest.mark.iree

TOLD = "TOLD AGAIN "
PYTHON = "lib/python3.9/site-packages"


class Idle:
    """A project, and a command line that finds nothing to do in it."""

    def __init__(self, project: Project, *words: str) -> None:
        self.project, self.words = project, words

    def told(self, *words: str, **variables: str) -> bool:
        """Run the command line; return whether it prints `TOLD`, which `settle` writes into stored answers."""
        outcome = self.project.doit(*self.words, *words, **variables)
        assert outcome.code in (0, 1), str(outcome)
        return TOLD in outcome.out

    def settle(self) -> None:
        """Run the command line until a run only repeats the stored output."""
        for _ in range(6):
            if self.told():
                return
            for path in (self.project.store / "answers").glob("*"):
                with contextlib.suppress(ValueError):  # an answer that a test damaged
                    # Only a run that replays the stored output prints `TOLD`.
                    answer = json.dumps({**json.loads(path.read_text().partition("\n")[2]), "said": TOLD})
                    path.write_text(f"{digest_of(answer.encode())}\n{answer}")
        raise AssertionError("never told again")


def _measured(root: Path) -> None:
    project = Project.make(root / "project", sweep(m=[8, 16]))
    (project.root / "specs/echo.mlir").write_text(MODULE)
    project.add('[[sweep]]\noperation = "module"\nfile = "echo.mlir"\nthreads = 1\n')
    project.add(sweep(m=16), "less.toml")
    # The tools are links to the real ones, so the bytes and hence the toolchain's digest are the same.
    toolchain(root / "tools" / PYTHON)
    assert project.doit("protocol=fast", f"iree={root / 'tools'}").code == 0


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Idle:
    root = tmp_path_factory.mktemp("recall") / "own"
    shutil.copytree(once(tmp_path_factory, "recall", _measured), root, symlinks=True)
    return Idle(Project(root / "project"), "protocol=fast", f"iree={root / 'tools'}")


def specs(project: Project) -> Path:
    return project.root / "specs"


def _touch(path: Path) -> None:
    status = path.lstat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 10**9), follow_symlinks=False)


CHANGES: dict[str, Callable[[Project], object]] = {
    "a spec": lambda p: p.add(sweep(m=8) + sweep(m=24, tags="new"), "a.toml"),
    "a spec's comment": lambda p: p.add((specs(p) / "a.toml").read_text() + "# why\n", "a.toml"),
    "a spec more": lambda p: p.add(sweep(m=16), "c.toml"),
    "a spec less": lambda p: (specs(p) / "less.toml").unlink(),
    "a module's file": lambda p: (specs(p) / "echo.mlir").write_text(MODULE + "// why\n"),
    "no view": lambda p: shutil.rmtree(p.root / "build"),
    "a view less": lambda p: shutil.rmtree(next((p.root / "build").glob("matmul*"))),
    "a part less": lambda p: next((p.store / "results").iterdir()).unlink(),
    "a part cut short": lambda p: os.truncate(next((p.store / "results").iterdir()), 100),
    "records": lambda p: p.doit("store", "clean", "keep=0"),
    "records behind our back": lambda p: p.write("delete from record where stage = 'verify'"),
    "a tool": lambda p: _swap(p.root.parent / "tools" / PYTHON / "iree/_runtime_libs/iree-run-module"),
    "a tool before": lambda p: _before(p.root.parent / "tools" / PYTHON),
    "a newer Python": lambda p: _newer(p.root.parent / "tools/lib"),
}


def _swap(link: Path) -> None:
    target = link.resolve()
    link.unlink()
    shutil.copy2(target, link)


def _before(tools: Path) -> None:
    (tools / "iree/compiler/_mlir_libs/libIREECompilerMore.so").write_bytes(b"")


def _newer(lib: Path) -> None:
    """Make `lib/python3.10` a link to `lib/python3.9`.

    The search for tools, which begins with the newest Python, then finds them through the link."""
    (lib / "python3.10").symlink_to("python3.9")


@real
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_any_input_is_planned_again(change: str, idle: Idle) -> None:
    idle.settle()
    CHANGES[change](idle.project)
    assert not idle.told()


@real
def test_another_command_line_has_another_answer(idle: Idle) -> None:
    idle.settle()
    assert idle.told("-n", "2")
    _touch(idle.project.root / "specs/a.toml")  # its bytes are the same
    assert idle.told()
    assert not idle.told("profile:matmul_8*")
    assert not idle.told("verify=off")
    assert not idle.told(LD_LIBRARY_PATH="/nothing")
    assert not idle.told("remeasure=30")
    assert not idle.told("retry=yes")


@real
@pytest.mark.parametrize("damage", [
    lambda text: text.replace(TOLD, TOLD.replace("TOLD", "OLD")), lambda text: text[:-3], lambda text: "",
    lambda text: '{"seen": 5, "code": 0, "said": ""}', lambda text: text.partition("\n")[2],
])  # fmt: skip
def test_a_damaged_answer_is_ignored(damage: Callable[[str], str], idle: Idle) -> None:
    idle.settle()
    for path in (idle.project.store / "answers").glob("*"):
        path.write_text(damage(path.read_text()))

    assert not idle.told()


@real
def test_dispatchflow_prints_what_doit_prints_and_replays_without_doit(idle: Idle) -> None:
    idle.settle()
    command = [sys.executable, "-X", "importtime", str(Path(sys.executable).parent / "dispatchflow"), *idle.words]
    lines, imported = {}, {}
    for number in range(2):
        outcome = finished(idle.project.start(argv=command))
        assert outcome.code == 0, str(outcome)
        lines[number] = outcome.out.splitlines()
        imported[number] = {line.rpartition("|")[2].strip() for line in outcome.err.splitlines()}
    assert "up to date" in lines[0][-1] and lines[0][:-1] == lines[1][:-1]
    assert "doit" in imported[0] and not {"doit", "numpy", "sqlite3"} & imported[1]
    assert _ours(imported[1]) == IDLE


IDLE = {
    "cli", "cli.command_line", "cli.main", "cli.output",
    "errors",
    "iree", "iree.command_lines",
    "keys",
    "project", "project.dodo_file", "project.replay",
    "stages",
    "store", "store.stamps",
    "timing", "timing.protocols",
    "tools", "tools.control_groups", "tools.machine",
    "units",
    "workload",
}  # fmt: skip
"""The modules of dispatchflow that a run imports if nothing changed. Each import takes up to 2 ms."""


def _ours(imported: set[str]) -> set[str]:
    return {name.removeprefix("dispatchflow.") for name in imported if name.startswith("dispatchflow.")}


def test_an_idle_run_imports_few_of_our_modules(tmp_path: Path) -> None:
    # No tools are needed, because the script replaces the kept answer.
    (tmp_path / "dodo.py").write_text(DODO)
    lines = (
        "import sys",
        "from dispatchflow.project.replay import Replay",
        "Replay.answer_if_unchanged = lambda self: (0, 'all was said; ')",
        "sys.argv = ['dispatchflow', 'profile:*']",
        "from dispatchflow.cli.main import command",
        "command()",
    )
    script = [sys.executable, "-X", "importtime", "-c", "\n".join(lines)]
    done = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("all was said; ")
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert _ours(imported) == IDLE and not {"doit", "numpy", "sqlite3", "subprocess"} & imported


OWN = """\
import helper
from dispatchflow import main

def task_own():
    return {"actions": ["echo ran >> own"]}

def task_profiles():
    return {"actions": ["echo ran >> own"], "task_dep": ["profile:*"]}

main()
"""


@pytest.fixture
def with_own(idle: Idle) -> Iterator[Idle]:
    """Yield a project whose dodo.py imports the module `helper` and defines doit tasks of the user."""
    dodo, helper = idle.project.root / "dodo.py", idle.project.root / "helper.py"
    helper.write_text("")
    dodo.write_text(OWN)
    yield Idle(idle.project, *idle.words, "profile:*")
    dodo.write_text(DODO)
    for made in (helper, idle.project.root / "own", idle.project.root / ".doit.db"):
        made.unlink(missing_ok=True)


def runs(idle: Idle, *words: str) -> int:
    own = idle.project.root / "own"
    own.unlink(missing_ok=True)
    assert idle.project.doit(*idle.words[:-1], *words).code == 0
    return own.read_text().count("ran") if own.exists() else 0


@real
def test_selected_cases_are_replayed_although_the_user_has_own_tasks(with_own: Idle) -> None:
    idle = with_own
    idle.settle()
    assert idle.told("-n", "2")
    stages = Idle(idle.project, *idle.words[:-1], "run", "compile", "verify:matmul_8*")
    stages.settle()
    no_words = Idle(idle.project, *idle.words[:-1])
    no_words.settle()
    assert idle.told()


@real
@pytest.mark.parametrize(
    "words", [("own",), ("own", "profile"), ("profile:*", "own"), ("profiles",), ("prof*",), ("*o*n",)]
)
def test_a_selected_task_of_the_users_own_runs_each_time(words: tuple[str, ...], with_own: Idle) -> None:
    with_own.settle()
    assert [runs(with_own, *words) for _ in range(3)] == [1, 1, 1]


@real
def test_a_command_line_without_words_means_the_default_tasks(with_own: Idle) -> None:
    dodo = with_own.project.root / "dodo.py"
    no_words = Idle(with_own.project, *with_own.words[:-1])
    no_words.settle()
    dodo.write_text(OWN.replace("main()", "DOIT_CONFIG = {'default_tasks': ['profile', 'own']}\nmain()"))
    assert [runs(with_own) for _ in range(3)] == [1, 1, 1]
    dodo.write_text(OWN.replace("main()", "DOIT_CONFIG = {'default_tasks': ['verify']}\nmain()"))
    assert not no_words.told()
    no_words.settle()


@real
@pytest.mark.parametrize(("name", "text"), [
    ("dodo.py", OWN + "# why\n"), ("dodo.py", DODO), ("helper.py", "# why\n"), ("helper.py", "import other\n"),
])  # fmt: skip
def test_a_changed_dodo_file_or_imported_module_is_noticed(name: str, text: str, with_own: Idle) -> None:
    (with_own.project.root / "other.py").write_text("")
    with_own.settle()
    (with_own.project.root / name).write_text(text)
    assert not with_own.told()


@real
def test_a_task_with_the_name_of_a_stage_is_refused(with_own: Idle) -> None:
    with_own.settle()
    dodo = with_own.project.root / "dodo.py"
    for own in ("import os\nif 'SHADOW' in os.environ:\n    ", ""):
        dodo.write_text(OWN.replace("main()", f"{own}task_profile = task_own\nmain()"))
        if own:
            with_own.settle()
        outcome = with_own.project.doit(*with_own.words, SHADOW="yes")
        assert outcome.code == 2 and "profile" in outcome.err, str(outcome)


@real
def test_failures_are_replayed_with_their_exit_code(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "project", '[[sweep]]\noperation = "module"\nfile = "bad.mlir"\nthreads = 1\n')
    (project.root / "specs/bad.mlir").write_text(MODULE.replace("return", "util.nothing\n return"))
    first, second, third = (project.doit("protocol=fast") for _ in range(3))
    assert first.code == second.code == third.code == 1
    said = [outcome.out.rpartition(" in ")[0] for outcome in (second, third)]
    assert said[0] == said[1]
    assert "nothing to do" in said[0]
    assert len(list((project.store / "answers").iterdir())) == 1
