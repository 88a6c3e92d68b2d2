"""Specs and the files named in specs may be reached through links. A pipe is an error."""

import os

import pytest

from dispatchflow.errors import SpecError
from dispatchflow.project.replay import Replay
from dispatchflow.project.workspace import Workspace

MODULE = '[[sweep]]\noperation = "module"\nfile = "{}"\n'


@pytest.fixture
def specs(tmp_path):
    folder = tmp_path / "specs"
    folder.mkdir()
    (tmp_path / "there").mkdir()
    (tmp_path / "there/a.mlir").write_text("func.func @main() {}")
    return folder


def plan_of(specs):
    return Workspace(specs.parent, {}).plan


def test_a_byte_order_mark_is_ignored(specs):
    (specs / "a.toml").write_bytes(b"\xef\xbb\xbf" + MODULE.format("../there/a.mlir").encode())
    assert len(plan_of(specs).cases) == 1


def test_a_sweep_of_files_needs_no_operation(specs):
    (specs / "a.toml").write_text(MODULE.format("../there/a.mlir").replace('operation = "module"\n', ""))
    assert [case.operation.name for case in plan_of(specs).cases] == ["module"]


def test_a_pipe_is_an_error_and_is_not_waited_for(specs):
    os.mkfifo(specs / "a.toml")
    with pytest.raises(SpecError, match="this spec cannot be read") as error:
        plan_of(specs)
    assert error.value.facts["found"].args == ("it is not a regular file",)
    (specs / "a.toml").unlink()
    (specs / "a.toml").write_text(MODULE.format("pipe.mlir"))
    os.mkfifo(specs / "pipe.mlir")
    with pytest.raises(SpecError, match="a file cannot be read"):
        plan_of(specs)
    assert Replay(specs.parent / "dodo.py", [], {}).look("file", os.fspath(specs / "pipe.mlir")) == "absent"


def test_an_answer_also_depends_on_a_named_object_that_is_missing(specs):
    (specs / "a.toml").write_text(MODULE.format("../there/a.mlir"))
    (specs.parent / "there/a.mlir").write_text('func.func @main() {}\n#o = #hal.executable.object<{path = "../k.o"}>')
    seen = {}
    recall = Replay(specs.parent / "dodo.py", [], {})
    recall.see = lambda kind, name, value: seen.setdefault((kind, name), value)
    assert Workspace(specs.parent, {}, recall).plan.cases[0].operation.objects == ()
    assert seen["file", os.fspath(specs / "../there/../k.o")] == "absent"
    (specs.parent / "k.o").write_bytes(b"code")
    ((written, file),) = Workspace(specs.parent, {}, recall).plan.cases[0].operation.objects
    assert (written, file.path) == ("../k.o", os.fspath(specs.parent / "k.o"))


def test_a_path_is_shown_without_dot_dot_unless_a_link_makes_it_another_file(specs):
    (specs / "a.toml").write_text(MODULE.format("../there/a.mlir"))
    (case,) = plan_of(specs).cases
    assert case.operation.source.path == os.fspath(specs.parent / "there/a.mlir")
    (specs.parent / "far/away").mkdir(parents=True)
    (specs.parent / "far/a.mlir").write_text("func.func @other() {}")
    (specs / "link").symlink_to("../far/away")
    (specs / "a.toml").write_text(MODULE.format("link/../a.mlir"))
    (case,) = plan_of(specs).cases
    assert case.operation.function == "other"
    assert case.operation.source.path == os.fspath(specs / "link/../a.mlir")
