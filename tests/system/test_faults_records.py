"""A database of records that is damaged, locked or of another version is reported to the user.

If the clock jumps, nothing is lost."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.project import NAME, Project, assert_each_row_once, assert_whole, recorded, sweep
from support.tools import kill, processes_in, wait_until

from dispatchflow.errors import StoreError
from dispatchflow.store.records import Records

pytest_plugins = ["support.project"]
pytestmark = pytest.mark.iree


def overwritten(content: bytes, begin: int, by: bytes) -> bytes:
    return content[:begin] + by + content[begin + len(by) :]


def middle(content: bytes) -> int:
    return len(content) // 2 // 4096 * 4096


HARMS = {
    "no database": lambda content: b"nonsense" * 1000,
    "header overwritten": lambda content: overwritten(content, 0, b"\xff" * 100),
    "cut in half": lambda content: content[: len(content) // 2],
    "cut to one page": lambda content: content[:4096],
    "page of nothing": lambda content: overwritten(content, middle(content), bytes(4096)),
    "pages of noise": lambda content: overwritten(content, 4096, random.Random(1).randbytes(len(content) - 4096)),
    "text that is none": lambda content: content.replace(b'{"', b"\xff{"),
}
LOOKING = [["list", "--all", "-s", "profile"], ["plan"], ["explain", f"profile:{NAME}"], ["toolchains"]]


def harm(project: Project, change: Callable[[bytes], bytes]) -> None:
    path = project.store / "records.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("pragma wal_checkpoint(truncate)")
    path.write_bytes(change(path.read_bytes()))


def test_a_damaged_description_of_the_toolchain_is_reported(copied: Project) -> None:
    with contextlib.closing(sqlite3.connect(copied.store / "records.sqlite")) as database, database:
        database.execute("update remembered set value = substr(value, 1, 99) where name glob 'toolchain:*'")
    outcome = copied.doit("plan")
    assert outcome.code == 2 and "the records cannot be read" in outcome.err, outcome


@pytest.mark.parametrize("name", HARMS)
def test_damaged_records_are_reported_by_every_command(name: str, copied: Project) -> None:
    # Damage in the middle of the file is found only when a page is read, not when the file is opened.
    harm(copied, HARMS[name])

    told = [copied.doit("protocol=fast", "remeasure=yes")]
    told += [copied.doit(*words) for words in LOOKING] if name in ("no database", "pages of noise") else []

    for outcome in told:
        assert outcome.code == 2, str(outcome)
        assert "the records cannot be read" in outcome.err
        assert str(copied.store / "records.sqlite") in outcome.err
        assert "Move the file away" in outcome.err
    assert copied.doit("report").code == 0


def test_after_damaged_records_were_moved_away_the_next_run_goes_on_beside_the_old_rows(copied: Project) -> None:
    rows = copied.rows()
    harm(copied, HARMS["pages of noise"])
    for path in copied.store.glob("records.sqlite*"):
        path.rename(copied.root / path.name)
    again = copied.doit("protocol=fast", f"profile:{NAME}")
    assert again.code == 0, str(again)
    assert_whole(copied)
    after = copied.rows()
    assert after[: len(rows)] == rows
    assert [row["case"] for row in after[len(rows) :]] == [NAME]


def test_records_beside_a_stray_log_or_without_their_index_are_read(copied: Project) -> None:
    harm(copied, lambda content: content)
    (copied.store / "records.sqlite-wal").write_bytes(random.Random(2).randbytes(100_000))

    assert "up to date" in copied.doit("protocol=fast").out

    process = copied.start("protocol=fast", "remeasure=yes", f"profile:{NAME}")
    log = copied.store / "records.sqlite-wal"
    assert wait_until(lambda: any("--benchmark_format" in words for words in processes_in(copied.root)))
    assert wait_until(lambda: log.stat().st_size > 0)
    kill(process)
    assert log.stat().st_size > 0
    (copied.store / "records.sqlite-shm").unlink()
    done = recorded(copied)

    outcome = copied.doit("protocol=fast")
    assert "up to date" in outcome.out, str(outcome)
    assert done <= recorded(copied)


def test_a_store_of_another_version_is_refused_by_every_command_and_left_as_it_is(copied: Project) -> None:
    copied.write("pragma user_version = 99")

    for words in ([], *LOOKING):
        outcome = copied.doit(*words)
        assert outcome.code == 2, str(outcome)
        assert "written by another version" in outcome.err
        assert "99" in outcome.err
    assert copied.query("pragma user_version") == [(99,)]
    assert copied.doit("report").code == 0


def test_records_locked_by_another_programs_transaction_are_reported(
    copied: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dispatchflow.store.database._PATIENCE_S", 0.1)
    records = Records(copied.store / "records.sqlite")
    with contextlib.closing(sqlite3.connect(copied.store / "records.sqlite", isolation_level=None)) as other:
        other.execute("begin immediate")
        with pytest.raises(StoreError, match="another program holds the records"):
            records.remember("a", "b")
    records.remember("a", "b")
    assert records.remembered("a") == "b"


def test_records_locked_exclusively_by_another_program_are_reported(
    copied: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A run on a full disk locks the records in this way.
    monkeypatch.setattr("dispatchflow.store.database._PATIENCE_S", 0.1)
    file = copied.store / "records.sqlite"
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("pragma locking_mode = exclusive")
        other.execute("select count(*) from remembered").fetchall()
        began = time.monotonic()
        with pytest.raises(StoreError, match="another program holds the records"):
            Records(file)
    assert time.monotonic() - began < 10
    assert Records(file).remembered("first_row")


# --- the clock


def test_the_last_recorded_row_counts_as_newest_after_the_clock_was_set_back(copied: Project) -> None:
    # Records and rows get a time one year later, as if the clock had been set back since.
    year = 365 * 86400
    copied.write(f"update record set at = at + {year}", f"update measurement set at = at + {year}")
    for (content,) in copied.query("select content from row"):
        later = json.dumps({**json.loads(content), "recorded_at": json.loads(content)["recorded_at"] + year})
        copied.write("update row set content = ? where content = ?", values=(later, content))
    for path in (copied.store / "results").iterdir():
        path.unlink()
    assert "up to date" in copied.doit("protocol=fast").out
    old = {row["case"]: row for row in copied.rows()}
    assert min(row["recorded_at"].timestamp() for row in old.values()) > time.time() + year / 2

    assert "1 case: 1 measured in " in copied.doit("protocol=fast", "remeasure=yes", f"profile:{NAME}").out
    *_, row = copied.rows()
    assert row["recorded_at"] < old[NAME]["recorded_at"]
    (shown,) = [json.loads(line) for line in copied.doit("report", "format=jsonl", NAME).out.splitlines()]
    assert shown["blocks_ns"] == row["blocks_ns"] != old[NAME]["blocks_ns"]
    assert "up to date" in copied.doit("protocol=fast").out
    # The age of these measurements is unknown, which is a reason to measure again only if `remeasure=` names an age.
    planned = copied.doit("plan", "protocol=fast", "remeasure=7").out
    assert "profile  3 of 4 to run" in planned
    assert "3: measured at a time in the future" in planned


def patched(folder: Path, text: str) -> dict[str, str]:
    """Return environment variables with which every Python process first runs the code `text`."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(text)
    return {"PYTHONPATH": os.pathsep.join([os.fspath(folder), *filter(None, [os.environ.get("PYTHONPATH")])])}


CLOCK = """\
import time
began, real = time.monotonic(), time.time
time.time = lambda: real() + ({first} if time.monotonic() < began + 1 else {then})
"""


@pytest.mark.parametrize(("first", "then"), [(0, -5e8), (-1.7e9, -1.7e9), (3e9, 0)])
def test_a_clock_that_jumps_during_a_run_loses_nothing(
    first: float, then: float, copied: Project, tmp_path: Path
) -> None:
    clock = patched(tmp_path / "clock", CLOCK.format(first=first, then=then))
    copied.add(sweep(m=20))

    outcome = copied.doit("protocol=fast", **clock)

    assert outcome.code == 0, str(outcome)
    assert "4 reused; 1 emitted, 1 compiled, 1 verified, 1 measured in " in outcome.out
    assert re.search(r" in \d[\d.]* (ms|s)$", outcome.out.rstrip()), str(outcome)
    assert_whole(copied)
    assert_each_row_once(copied)
    assert copied.query("select count(*) from record where cost_s < 0") == [(0,)]
    assert copied.rows()[-1]["m"] == 20
    assert "up to date" in copied.doit("protocol=fast").out


def test_runs_at_the_same_moment_of_a_clock_have_parts_of_their_own(copied: Project, tmp_path: Path) -> None:
    clock = patched(tmp_path / "clock", "import os, time\ntime.time = lambda: 1.7e9\nos.getpid = lambda: 7\n")
    for size in (20, 28):
        copied.add(sweep(m=size), f"{size}.toml")
        outcome = copied.doit("protocol=fast", f"profile:*_{size}x*", **clock)
        assert outcome.code == 0, str(outcome)

    assert [row["m"] for row in copied.rows()[-2:]] == [20, 28]
    assert len(copied.parts()) == 3
    assert_each_row_once(copied)
