"""Run `doit` as a user does, in a project in a temporary directory, with the real tools.

Test files import this pytest plugin as an ordinary module too, and pytest would warn about that. The word
PYTEST_DONT_REWRITE in this docstring turns the warning off."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.forked import forked
from support.once import once
from support.tools import Outcome, environment, finished, processes_in

from dispatchflow.keys import digest_file
from dispatchflow.results import parquet

REPOSITORY = Path(__file__).parent.parent.parent
DODO = "from dispatchflow import main\n\nmain()\n"
NAME = "matmul_16x16x16_f32t_f32t_f32t_default@llvm-cpu-1t"
TILED = "matmul_16x16x16_f32t_f32t_f32t_data_tiling@llvm-cpu-1t"
"""`NAME` and `TILED` are two of the four cases that the project of the fixture `first_run` has."""
NOTHING = {"emit": 0, "compile": 0, "verify": 0, "profile": 0}


def only(**counts: int) -> dict[str, int]:
    """Return `counts` with 0 for each stage that is not given, to compare with `Project.counts()`."""
    return NOTHING | counts


@dataclass(frozen=True)
class Project:
    """A user's project: a directory with dodo.py and specs/, in which dispatchflow makes its files."""

    root: Path

    @staticmethod
    def make(root: Path, spec: str = "", dodo: str = DODO) -> Project:
        (root / "specs").mkdir(parents=True)
        (root / "dodo.py").write_text(dodo)
        if spec:
            (root / "specs/a.toml").write_text(spec)
        return Project(root)

    def copy(self, to: Path) -> Project:
        shutil.copytree(self.root, to, symlinks=True)
        return Project(to)

    def add(self, spec: str, name: str = "b.toml") -> None:
        (self.root / "specs" / name).write_text(spec)

    def start(
        self, *words: str, argv: Sequence[str] = (sys.executable, "-m", "doit"), **variables: str
    ) -> subprocess.Popen[str]:
        """Start `doit WORDS` in a process group of its own; do not wait until it ends.

        `argv` is the command line before WORDS. `variables` are added to the environment."""
        return subprocess.Popen(
            [*argv, *words], cwd=self.root, env=environment(variables), text=True, errors="surrogateescape",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def doit(self, *words: str, **variables: str) -> Outcome:
        """Run `doit WORDS` to its end, and check that it prints no traceback.

        If possible, the process is a fork of a helper process that has imported `doit`, because a fork is faster.
        `variables` are added to the environment."""
        return finished(forked(words, self.root, environment(variables)) or self.start(*words, **variables))

    @property
    def store(self) -> Path:
        return self.root / ".dispatchflow"

    def query(self, text: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows that an SQL query finds in the project's database of records."""
        with contextlib.closing(sqlite3.connect(self.store / "records.sqlite", timeout=60)) as database:
            return database.execute(text, values).fetchall()

    def write(self, *statements: str, values: tuple[Any, ...] = ()) -> None:
        with contextlib.closing(sqlite3.connect(self.store / "records.sqlite", timeout=60)) as database, database:
            for statement in statements:
                database.execute(statement, values)

    def counts(self) -> dict[str, int]:
        """Return a dict from each stage to the number of its actions that the project has recorded.

        For the stage `profile`, only measurements that have ended are counted. The kernels that measure the machine's
        peak rates are counted too, in the stages `compile` and `profile`."""
        found = dict(self.query("select stage, count(*) from record group by stage"))
        measured = self.query("select count(*) from measurement where status <> 'open'")[0][0]
        return {stage: found.get(stage, 0) for stage in ("emit", "compile", "verify")} | {"profile": measured}

    def made_by(self, *words: str, code: int = 0, **variables: str) -> tuple[dict[str, int], Outcome]:
        """Run `doit WORDS`; return how many actions of each stage the run recorded, and its outcome.

        Also assert that the exit code of the run is `code`."""
        before = self.counts()
        outcome = self.doit(*words, **variables)
        assert outcome.code == code, str(outcome)
        return {stage: count - before[stage] for stage, count in self.counts().items()}, outcome

    def rows(self) -> list[dict[str, Any]]:
        return parquet.read(self.store / "results")

    def parts(self) -> set[str]:
        return {path.name for path in (self.store / "results").iterdir()}

    def files(self) -> dict[str, tuple[int, int]]:
        """Return {path: (size in bytes, modification time in ns)} for all files in the store and `build/`.

        Paths are relative to the project. The dict excludes SQLite's files, locks, and the stored outputs of runs with
        nothing to do."""
        made = [*self.store.rglob("*"), *(self.root / "build").rglob("*")]
        kept = (path for path in made if not path.is_dir() and not path.name.startswith("records.sqlite"))
        return {
            os.fspath(path.relative_to(self.root)): (path.lstat().st_size, path.lstat().st_mtime_ns)
            for path in kept
            if path.parent.name not in ("locks", "answers")
        }

    def damaged(self) -> list[str]:
        """Return the names of the damaged objects in the store.

        An object is a file that is stored under the digest of its content. It is damaged if its content has another
        digest."""
        objects = [path for path in (self.store / "objects").rglob("*") if path.is_file()]
        return [path.name for path in objects if path.parent.name + path.name != digest_file(path)]


def recorded(project: Project) -> set[tuple[object, ...]]:
    if not (project.store / "records.sqlite").exists():
        return set()
    try:
        return {
            *project.query("select 'record', key from record"),
            *project.query("select 'block', measurement, number, ns from block"),
            *project.query("select 'measurement', id, status from measurement where status <> 'open'"),
            *project.query("select 'row', identity, content from row"),
        }
    except Exception as error:  # killed before the tables were made
        assert "no such table" in str(error), error
        return set()


def assert_whole(project: Project) -> None:
    """Assert that the store is consistent, which it must be even after any process was killed.

    It is consistent if the database is intact, no object (a file in the store) is damaged, and no object that a
    record names is missing."""
    assert project.query("pragma integrity_check") == [("ok",)]
    assert project.damaged() == []
    named = project.query("select distinct digest from output join record using (key)")
    missing = [d for (d,) in named if not (project.store / "objects" / d[:2] / d[2:]).is_file()]
    assert missing == []


def assert_each_row_once(project: Project) -> None:
    rows = project.rows()
    recorded = project.query("select count(*), count(distinct identity), count(part) from row")
    assert recorded == [(len(rows),) * 3]
    said = ("case", "compile_key", "verify_key", "measurement_key", "blocks_ns")
    results = Counter(str([row[column] for column in said]) for row in rows)
    assert max(results.values()) == 1


def assert_the_next_run_goes_on(project: Project, done: set[tuple[object, ...]]) -> None:
    """Assert that a new run finishes all cases, and that the records still contain everything in `done`.

    `done` is a result of the function `recorded`: what the records contained before the new run."""
    outcome = project.doit("-n", "2", "protocol=fast")
    assert outcome.code == 0, str(outcome)
    assert " failed" not in outcome.out.splitlines()[-1]
    assert_whole(project)
    assert done <= recorded(project)
    assert_each_row_once(project)


def sweep(**words: Any) -> str:
    """Return a spec with one sweep, which is a small matmul on one thread by default.

    `words` add variables to the sweep or replace its default values. A variable whose value is None is left out."""
    table = {"operation": "matmul", "m": 16, "n": 16, "k": 16, "threads": 1, **words}
    return "[[sweep]]\n" + "".join(f"{name} = {_toml(value)}\n" for name, value in table.items() if value is not None)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_toml(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value)


SMALL = sweep(m=[16, 24], tuning=["default", "data_tiling"], tags=["small"])


@pytest.fixture(scope="session")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Project, Outcome]]:
    """Return a project whose four cases are finished, and the outcome of the run that finished them.

    Tests must not change this project; they change copies of it."""

    def make(folder: Path) -> None:
        project = Project.make(folder / "project", SMALL)
        outcome = project.doit("protocol=fast", "profile:matmul_*")
        assert not processes_in(project.root)
        (folder / "outcome.json").write_text(json.dumps([outcome.code, outcome.out, outcome.err]))

    made = once(tmp_path_factory, "first", make)
    # Each worker gets a copy, so that readers in one worker do not disturb those in another.
    project = Project(made / "project").copy(tmp_path_factory.mktemp("first") / "project")
    yield project, Outcome(*json.loads((made / "outcome.json").read_text()))
    assert not processes_in(project.root)


@pytest.fixture(scope="session")
def made(first_run: tuple[Project, Outcome]) -> Project:
    """Return the project of the fixture `first_run`, which a test must not change."""
    return first_run[0]


@pytest.fixture
def copied(made: Project, tmp_path: Path) -> Project:
    return made.copy(tmp_path / "project")
