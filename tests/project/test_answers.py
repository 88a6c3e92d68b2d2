"""`Replay` keeps a command line's output, and repeats this output while all inputs are unchanged."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.echo_module import MODULE
from support.project import sweep

from dispatchflow.keys import Key
from dispatchflow.libraries import installed
from dispatchflow.project.replay import Replay
from dispatchflow.project.workspace import Workspace
from dispatchflow.store.records import Records

pytest_plugins = ["support.project"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ".dispatchflow/results").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def records(root: Path) -> Iterator[Records]:
    found = Records(root / ".dispatchflow/records.sqlite")
    yield found
    found.close()


def asked(root: Path, *words: str) -> Replay:
    return Replay(root / "dodo.py", words, {})


def test_an_answer_is_replayed(root: Path, records: Records) -> None:
    first = asked(root, "profile")
    assert first.answer_if_unchanged() is None
    first.keep(1, "text \udcff")
    assert asked(root, "profile").answer_if_unchanged() == (1, "text \udcff")
    assert asked(root, "verify").answer_if_unchanged() is None
    (answer,) = (root / ".dispatchflow/answers").iterdir()
    answer.write_bytes(answer.read_bytes()[:-9])
    assert asked(root, "profile").answer_if_unchanged() is None


def test_no_answer_is_kept_if_records_changed_meanwhile(root: Path, records: Records) -> None:
    first = asked(root)
    assert first.answer_if_unchanged() is None
    records.remember("anything", "of another invocation")
    first.keep(0, "text")
    assert asked(root).answer_if_unchanged() is None


def test_an_answer_depends_on_what_was_read_not_on_the_later_state(root: Path, records: Records) -> None:
    spec = root / "a.toml"
    spec.write_text("old")
    first = asked(root)
    assert first.answer_if_unchanged() is None
    first.look("file", str(spec))
    spec.write_text("new")
    first.keep(0, "of the old one")
    assert asked(root).answer_if_unchanged() is None
    spec.write_text("old")
    assert asked(root).answer_if_unchanged() == (0, "of the old one")


def test_every_write_to_the_records_is_noticed_and_reading_them_is_not(root: Path) -> None:
    path = root / ".dispatchflow/records.sqlite"

    def looks() -> None:
        with contextlib.closing(Records(path)) as records:
            records.found(Key("key"))
            with pytest.raises(ZeroDivisionError), records._transaction():
                records._db.execute("insert into said values ('a', 'b')")
                raise ZeroDivisionError

    def records_something() -> None:
        with contextlib.closing(Records(path)) as records:
            records.set_latest("name", {"emit": Key("key")}, {})

    def damages() -> None:
        with path.open("r+b") as stream:
            stream.seek(4096)
            stream.write(b"\xff" * 4096)

    def writes() -> None:
        with contextlib.closing(sqlite3.connect(path)) as database, database:
            database.execute("delete from latest")

    def is_killed() -> None:
        code = "import sqlite3, os, sys; d = sqlite3.connect(sys.argv[1]); d.execute('delete from said'); d.commit(); os._exit(0)"
        subprocess.run([sys.executable, "-c", code, os.fspath(path)], check=True)

    Records(path).close()
    for change in (looks, records_something, writes, is_killed, damages):
        first = asked(root)
        if first.answer_if_unchanged() is None:
            first.keep(0, "text")
        assert asked(root).answer_if_unchanged() is not None
        change()
        assert (asked(root).answer_if_unchanged() is not None) == (change is looks), change


def test_only_the_newest_answers_stay(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dispatchflow.project.replay._ANSWERS", 3)
    for number in range(5):
        asked(root, str(number)).keep(0, "text")
        time.sleep(0.01)  # file times have the resolution of the kernel's clock
    assert [asked(root, str(number)).answer_if_unchanged() is not None for number in range(5)] == [
        False,
        False,
        True,
        True,
        True,
    ]


def test_another_version_of_a_library_is_noticed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = asked(root)
    assert first.answer_if_unchanged() is None
    first.look("library", "numpy")
    first.keep(0, "text")
    assert asked(root).answer_if_unchanged() == (0, "text")
    monkeypatch.setattr(installed, "library", lambda name: None)
    assert asked(root).answer_if_unchanged() is None


def test_a_changed_module_of_dispatchflow_is_noticed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dispatchflow.project import replay

    package = root / "package"
    (package / "operations").mkdir(parents=True)
    (package / "cli/commands").mkdir(parents=True)
    for path in (package / "a.py", package / "operations/b.py", package / "cli/commands/d.py"):
        path.write_text("")
    monkeypatch.setattr(replay, "__file__", str(package / "project/replay.py"))
    changes = ("operations/b.py", "operations/new.py", "a.py", "c.toml", "cli/commands/d.py")
    for change in (package / name for name in changes):
        first = asked(root)
        if first.answer_if_unchanged() is None:
            first.keep(0, "text")
        assert asked(root).answer_if_unchanged() is not None
        change.write_text("x = 1")
        assert asked(root).answer_if_unchanged() is None


def test_dot_dot_after_a_link_is_resolved_at_the_link_s_target(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # `st/link/..` is `elsewhere` and not `st`, which has the same files.
    monkeypatch.chdir(root)
    for folder in (root / "st", root / "elsewhere"):
        (folder / "more").mkdir(parents=True)
        (folder / "m.mlir").write_text(MODULE)
        (folder / "more/a.toml").write_text(sweep(m=8))
    (root / "elsewhere/sub").mkdir()
    (root / "st/link").symlink_to("../elsewhere/sub")
    by_file = {"file": "st/link/../m.mlir", "function": ("main",)}
    by_specs = {"specs": ("st/link/../more",)}
    new = sweep(m=16)
    for variables, change, text in (
        (by_file, "m.mlir", MODULE + "// why\n"),
        (by_specs, "more/a.toml", new),
        (by_specs, "more/b.toml", new),
    ):
        first = asked(root)
        first.answer_if_unchanged()
        assert Workspace(root, variables, first).plan.cases
        first.keep(0, "text")
        assert asked(root).answer_if_unchanged() is not None
        (root / "elsewhere" / change).write_text(text)
        assert asked(root).answer_if_unchanged() is None
