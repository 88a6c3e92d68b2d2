"""Damaged objects (files in the store) and damaged Parquet files are noticed and restored."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.project import NAME, Project, assert_whole, only, recorded, sweep
from support.tools import finished, rightless

from dispatchflow.keys import digest_file

pytest_plugins = ["support.project"]
pytestmark = pytest.mark.iree

DAMAGES = {
    "a changed byte": lambda content: bytes([content[0] ^ 1]) + content[1:],
    "cut short": lambda content: content[: len(content) // 2],
    "emptied": lambda content: b"",
    "deleted": None,
}


USED = ["module.vmfb", "random_0.bin", "exact_1.bin", "expected_exact.bin", "expected_random_tolerance.bin"]


@pytest.mark.parametrize(
    ("name", "damage"), [*((name, "a changed byte") for name in USED), *((USED[0], d) for d in list(DAMAGES)[1:])]
)
def test_a_damaged_object_is_made_again_before_it_is_used(name: str, damage: str, copied: Project) -> None:
    path = (copied.root / "build" / NAME / name).resolve(strict=True)
    content, change = path.read_bytes(), DAMAGES[damage]
    path.unlink()
    if change is not None:
        path.write_bytes(change(content))
    # A new measurement needs the module; the verification of a new case needs the other objects.
    other = sweep(m=16, n=16, k=16, tuning="double_tiling_64x64_4x16x1")
    used = {"module.vmfb": [f"profile:{NAME}", "remeasure=yes"]}.get(name, ["verify:*double_tiling*"])
    copied.add(other)

    outcome = copied.doit("protocol=fast", *used)

    assert outcome.code == 0, str(outcome)
    assert path.read_bytes() == content
    assert path.parent.name + path.name == digest_file(path)
    assert_whole(copied)
    assert all(row["verification"] == "within bound" for row in copied.rows())


def test_two_swapped_objects_are_both_made_again(copied: Project) -> None:
    folder = copied.root / "build" / NAME
    one, other = ((folder / name).resolve(strict=True) for name in ("random_0.bin", "module.vmfb"))
    contents = one.read_bytes(), other.read_bytes()
    for path, content in zip((other, one), contents, strict=True):
        path.chmod(0o644)
        path.write_bytes(content)

    outcome = copied.doit("protocol=fast", f"profile:{NAME}", "remeasure=yes")

    assert outcome.code == 0, str(outcome)
    assert (one.read_bytes(), other.read_bytes()) == contents
    assert_whole(copied)


def test_objects_and_views_that_were_deleted_come_back(copied: Project) -> None:
    folder = copied.root / "build" / NAME
    shutil.rmtree(folder)
    assert copied.doit("protocol=fast").code == 0
    assert (folder / "module.mlir").read_bytes()

    shutil.rmtree(copied.store / "objects")
    checked = copied.doit("store", "check")
    assert (checked.code, "is missing: removed" in checked.out) == (1, True)
    made, _ = copied.made_by("protocol=fast", f"profile:{NAME}")
    assert made == only(emit=1, compile=1)
    assert (folder / "module.vmfb").read_bytes()


@pytest.mark.parametrize("left", [-100, 100, 0])
def test_a_part_cut_short_is_named_and_written_again_by_the_next_run(left: int, copied: Project) -> None:
    (part,) = (copied.store / "results").iterdir()
    rows = copied.rows()
    part.write_bytes(part.read_bytes()[:left])

    outcome = copied.doit("report")
    assert (outcome.code, "cannot be read" in outcome.err) == (2, True)

    outcome = copied.doit("protocol=fast")
    assert (outcome.code, "up to date" in outcome.out) == (0, True)
    assert copied.rows() == rows


def test_a_part_damaged_within_is_named_and_written_again_once_removed(copied: Project) -> None:
    (part,) = (copied.store / "results").iterdir()
    rows, content = copied.rows(), part.read_bytes()
    part.write_bytes(content[:4] + bytes(len(content) - 8) + content[-4:])
    assert copied.doit("protocol=fast").code == 0

    outcome = copied.doit("report")
    assert (outcome.code, "Remove that part" in outcome.err) == (2, True)
    checked = copied.doit("store", "check", "sample=1")
    assert (checked.code, ".. Remove it" in checked.out, ". Remove it" in checked.out) == (1, False, True)

    part.unlink()
    assert copied.doit("protocol=fast").code == 0
    assert copied.rows() == rows


@pytest.mark.parametrize("lay", [Path.mkdir, os.mkfifo])
def test_a_directory_or_pipe_at_an_objects_path_is_reported_and_the_check_goes_on(
    lay: Callable[[Path], None], copied: Project
) -> None:
    path, gone = ((copied.root / "build" / NAME / name).resolve(strict=True) for name in ("module.vmfb", "exact_0.bin"))
    path.unlink()
    gone.unlink()
    lay(path)

    outcome = copied.doit("protocol=fast", "remeasure=yes", f"profile:{NAME}")
    checked = copied.doit("store", "check", "sample=1")

    assert (outcome.code, "an object cannot be read" in outcome.err) == (2, True), str(outcome)
    assert os.fspath(path) in outcome.err
    assert f"Move {path} away" in checked.out, checked
    assert "is missing: removed" in checked.out
    assert (checked.code, checked.out.splitlines()[-1]) == (1, "2 wrong")


@pytest.mark.parametrize("part", ["objects", "locks", "results", "tmp", "records.sqlite"])
def test_an_unwritable_part_of_the_store_is_reported_once_and_fails_no_case(part: str, copied: Project) -> None:
    copied.add(sweep(m=[20, 28]))
    for path in [*(copied.store / "locks").iterdir(), *(copied.store / "results").iterdir()]:
        path.unlink()  # the run must create them again
    before, words = recorded(copied), ["protocol=fast", "profile:*16x16x16*" if part == "results" else "emit"]
    paths = [copied.store / part, *(path for path in (copied.store / part).rglob("*") if path.is_dir())]
    modes = {path: path.stat().st_mode for path in paths}
    for path in paths:
        path.chmod(0o444 if path.is_file() else 0o555)

    outcome = finished(copied.start("-n", "2", *words, argv=[*rightless(), sys.executable, "-m", "doit"]))

    assert outcome.code == 2, str(outcome)
    said = "the records" if part == "records.sqlite" else "the store"
    assert outcome.err.count("doit: ") == outcome.err.count(f"{said} cannot be written:") == 1, str(outcome)
    assert "DISPATCHFLOW_STORE" in outcome.err
    assert os.fspath(copied.store / part) in outcome.err
    assert "FAILED" not in outcome.out
    assert recorded(copied) == before
    for path, mode in modes.items():
        path.chmod(mode)
    left = [path for path in copied.store.glob("records.sqlite-*") if not path.stat().st_mode & 0o200]
    again = finished(copied.start("-n", "2", *words, argv=[*rightless(), sys.executable, "-m", "doit"]))
    assert all(os.fspath(path) in again.err for path in left), again  # SQLite gave them their database's mode
    assert again.code == (2 if left else 0)
    assert copied.doit(*words).code == 0
