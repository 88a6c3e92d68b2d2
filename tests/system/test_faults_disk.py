"""When the disk fills up, one message is printed, nothing is lost, and a later run goes on."""

from __future__ import annotations

import errno
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.project import (
    NAME,
    Project,
    assert_the_next_run_goes_on,
    assert_whole,
    recorded,
    sweep,
)
from support.tools import QUESTIONS, Outcome, toolchain

from dispatchflow.errors import StoreError
from dispatchflow.keys import Key
from dispatchflow.project.workspace import Workspace
from dispatchflow.store.entries import Record
from dispatchflow.store.store import Store

pytest_plugins = ["support.project"]
pytestmark = pytest.mark.iree

SIZE = 12 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Return the folder of an empty file system of 12 MiB; skip the test if mounting fails."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "dispatchflow", os.fspath(place)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root may mount a small disk, and not in every container")
    yield place
    subprocess.run(["umount", os.fspath(place)], check=True)


def fill(disk: Path, but_bytes: int = 0) -> Path:
    """Write one file that fills the disk until only `but_bytes` are free, and return the file's path."""
    ballast, status = disk / "ballast", os.statvfs(disk)
    with ballast.open("wb") as stream:
        stream.write(bytes(max(0, status.f_bavail * status.f_frsize - but_bytes)))
    return ballast


def on(disk: Path, project: Project) -> Project:
    """Move the project's store to this disk, and return the project."""
    store = project.store
    if store.exists():
        subprocess.run(["cp", "-a", os.fspath(store), os.fspath(disk / "store")], check=True)
        subprocess.run(["rm", "-r", os.fspath(store)], check=True)
    (disk / "store").mkdir(exist_ok=True)
    store.symlink_to(disk / "store")
    return project


def assert_told(outcome: Outcome) -> None:
    assert outcome.code == 2, str(outcome)
    assert outcome.err.count("doit: ") == 1
    assert "Make room" in outcome.err


# From no free space to enough for the database, for some objects, and for everything except the last block and row.
ROOM_KIB = [0, 48, 160, 224, 288]


def test_a_disk_that_fills_up_at_any_moment_loses_nothing_finished(disk: Path, tmp_path: Path) -> None:
    project = on(disk, Project.make(tmp_path / "p", sweep(m=[4, 5], n=8, k=8, target=["vmvx", "llvm-cpu"])))
    done: set[tuple[object, ...]] = set()
    reached = []
    for room in ROOM_KIB:
        ballast = fill(disk, room << 10)

        outcome = project.doit("-n", "2", "protocol=fast")

        ballast.unlink()
        before, done = done, recorded(project)
        assert before <= done
        if done:
            assert_whole(project)
            assert project.query("select reason from record where not ok") == []
            assert project.query("select reason from measurement where status = 'failed'") == []
        if outcome.code:  # how much space is enough depends on the machine
            assert_told(outcome)
            reached.append(len(done))
    assert len(set(reached)) >= 3, reached

    assert_the_next_run_goes_on(project, done)
    assert list((project.store / "tmp").iterdir()) == []
    assert len(project.rows()) == 4


def test_without_room_for_a_part_its_rows_wait_for_the_next_run(disk: Path, copied: Project) -> None:
    on(disk, copied)
    rows = copied.rows()
    for path in (copied.store / "results").iterdir():
        path.unlink()
    ballast = fill(disk, 44 << 10)  # enough for the database's -shm file, but not for 30 KiB of Parquet too

    outcome = copied.doit("protocol=fast")

    assert_told(outcome)
    assert copied.parts() == set()
    ballast.unlink()
    assert copied.doit("protocol=fast").code == 0
    assert copied.rows() == rows


def test_a_check_without_room_to_compile_again_names_the_disk(disk: Path, copied: Project) -> None:
    on(disk, copied)
    for but_kib in (0, 12, 24):  # too little for a module, or for what it is compiled to
        ballast = fill(disk, but_kib << 10)

        outcome = copied.doit("store", "check", "sample=all")

        assert_told(outcome)
        assert f"store  {copied.store}" in outcome.err
        assert "free   " in outcome.err
        ballast.unlink()
    assert copied.doit("store", "check", "sample=all").code == 0


def test_without_room_for_the_view_the_run_goes_on_and_the_next_one_writes_it(disk: Path, copied: Project) -> None:
    subprocess.run(["rm", "-r", os.fspath(copied.root / "build")], check=True)
    (copied.root / "build").symlink_to(disk)
    copied.add(sweep(m=20))
    ballast = fill(disk)

    outcome = copied.doit("protocol=fast")

    assert outcome.code == 0, str(outcome)
    assert outcome.err.count("cannot be written") == 1
    assert "No space left on device" in outcome.err
    assert {row["m"] for row in copied.rows()} == {16, 20, 24}
    assert not [path for path in disk.rglob("*") if path.is_file() and path != ballast]
    ballast.unlink()
    again = copied.doit("protocol=fast")
    assert (again.code, again.err) == (0, ""), str(again)
    assert "up to date" in again.out
    assert len(list(disk.glob("matmul_*/repro.sh"))) == 5
    assert (disk / NAME / "module.vmfb").resolve(strict=True).parent.parent == copied.store / "objects"


def test_a_report_needs_no_room(disk: Path, copied: Project) -> None:
    on(disk, copied)
    fill(disk)

    assert copied.doit("report").out.count("matmul_") == 4
    outcome = copied.doit("report", f"out={disk}/rows.txt")
    assert outcome.code == 2
    assert "No space left on device" in outcome.err


def test_a_bundle_on_a_full_disk_names_its_folder_and_leaves_nothing(disk: Path, copied: Project) -> None:
    for but_kib in (0, 4):  # no room for a file, or only for a part of it
        ballast = fill(disk, but_kib << 10)
        outcome = copied.doit("extract", f"compile:{NAME}", f"out={disk}/new/alone")
        assert outcome.code == 2
        assert f"out={disk}/new/alone cannot be written" in outcome.err and "No space left on device" in outcome.err
        assert list(disk.iterdir()) == [ballast]
        ballast.unlink()


def test_looking_and_cleaning_need_no_room(disk: Path, copied: Project) -> None:
    on(disk, copied)
    ballast = fill(disk)
    for words in (
        ["protocol=fast"],
        ["store"],
        ["plan"],
        ["explain", f"profile:{NAME}"],
        ["store", "clean", "dry=yes"],
        ["store", "clean", "keep=referenced"],
        ["toolchains"],
        ["devices"],
    ):
        outcome = copied.doit(*words)
        assert (outcome.code, outcome.err) == (0, ""), f"{words}: {outcome}"

    outcome = copied.doit("store", "clean", "keep=0")

    assert (outcome.code, outcome.err) == (0, ""), str(outcome)
    assert "0 objects, 0 B, stay" in outcome.out
    counts = copied.counts()
    assert (counts["emit"], counts["compile"]) == (0, 0)
    ballast.unlink()
    assert copied.doit("store", "clean").code == 0  # removes the records for which the disk was too full
    assert_whole(copied)
    made, _ = copied.made_by("protocol=fast", "profile:matmul_*")
    assert made == {"emit": 2, "compile": 4, "verify": 0, "profile": 0}
    assert_whole(copied)


def test_an_error_on_a_full_disk_does_not_suggest_to_clean_an_empty_store(disk: Path, tmp_path: Path) -> None:
    project = on(disk, Project.make(tmp_path / "p", sweep()))
    for room_kib, words in ((0, ["store", "clean"]), (16, ["store", "clean"]), (16, ["plan"])):
        ballast = fill(disk, room_kib << 10)

        outcome = project.doit(*words)

        assert_told(outcome)
        assert "store clean" not in outcome.err
        ballast.unlink()


@pytest.mark.parametrize("room_kib", [0, 44])
def test_facts_of_a_new_toolchain_are_never_recorded_truncated(
    room_kib: int, disk: Path, copied: Project, tmp_path: Path
) -> None:
    on(disk, copied)
    toolchain(tmp_path / "tools", iree_benchmark_module='exec "$real" "$@"')
    other = f"iree={tmp_path / 'tools'}"
    ballast = fill(disk, room_kib << 10)
    first = copied.doit("toolchains", other)
    ballast.unlink()
    if first.code:
        assert_told(first)
    assert copied.doit("toolchains", other).code == 0
    said = [json.loads(text) for (text,) in copied.query("select value from remembered where name glob 'toolchain:*'")]
    assert [known["dispatch_statistics"] for known in said] == [True, True]


def test_a_tool_that_fills_the_disk_is_no_failed_case(disk: Path, copied: Project, tmp_path: Path) -> None:
    # The failure is not recorded, although the disk has space again when the tool's files are gone.
    on(disk, copied)
    copied.add(sweep(m=20))
    once = f'[ -e {tmp_path}/mended ] || {{ /bin/cat /dev/zero > much; exit 1; }}\nexec $real "$@"'
    tools = {
        "PYTHONPATH": toolchain(
            tmp_path / "tools", iree_compile=f'case "$*" in {QUESTIONS}) ;; *) {once};; esac\nexec $real "$@"'
        )
    }
    before = recorded(copied)

    outcome = copied.doit("protocol=fast", "profile:*_20x*", **tools)

    assert_told(outcome)
    assert {kind for kind, *_ in recorded(copied) - before} <= {"record"}
    assert copied.query("select reason from record where not ok") == []
    (tmp_path / "mended").touch()
    assert copied.doit("protocol=fast", "profile:*_20x*", **tools).code == 0


def test_without_room_for_an_object_nothing_is_recorded(copied: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    # The record is not written even if the database still has space for it.
    copied.add(sweep(m=20))
    workspace = Workspace(copied.root, {})
    case = next(case for case in workspace.plan.cases if case.operation.sizes[0] == 20)

    def full(content: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "object")

    with monkeypatch.context() as patch:
        patch.setattr(workspace.store, "put_bytes", full)
        with pytest.raises(StoreError, match="the disk is full"):
            workspace.executor.emit(case)
    assert workspace.store.records.get(workspace.resolver.chain(case)["emit"].key) is None
    assert workspace.executor.emit(case).ok


def test_objects_that_are_too_small_to_delete_their_records_are_removed_all_the_same(disk: Path) -> None:
    store = Store(disk / "store")
    digest = store.put_bytes(b"1")
    keys = [Key(f"{number:032}") for number in range(300)]
    for key in keys:
        store.records.add(Record(key, "compile", ok=True, outputs={"vmfb": digest}, ingredients={"text": "x" * 2000}))
    store.records.close()
    store = Store(disk / "store")
    ballast = fill(disk)

    store.discard(keys, [digest])

    assert not store.path(digest).exists()
    with pytest.raises(StoreError, match=r"full|cannot be written"):
        store.discard(keys, [])
    ballast.unlink()
    assert len(store.records.held()) == 300
    store.discard(keys, [digest])
    assert store.records.held() == []
    store.records.close()
