"""While a process measures, no other process compiles or measures.

A process that has to wait prints which process it waits for."""

from __future__ import annotations

import errno
import fcntl
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dispatchflow.store import holders, locks
from dispatchflow.store.locks import Claims, MachineLock

HOLDS = """\
import sys
from pathlib import Path
from dispatchflow.store import locks
shared, store, how = sys.argv[1:]
locks._SHARED_MEMORY = Path(shared)
with getattr(locks.MachineLock(Path(store)), how)():
    print("in", flush=True)
    sys.stdin.readline()
"""


class Process:
    """A process that takes the machine's lock and holds it until `end` is called."""

    def __init__(self, shared: Path, store: Path, how: str) -> None:
        (store / "locks").mkdir(parents=True, exist_ok=True)
        argv = [sys.executable, "-c", HOLDS, shared, store, how]
        self.popen = subprocess.Popen(
            argv, cwd=shared, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._is_in = False

    def is_in(self, within_s: float = 60.0) -> bool:
        assert self.popen.stdout is not None
        if not self._is_in and select.select([self.popen.stdout], [], [], within_s)[0]:
            self._is_in = self.popen.stdout.readline() == "in\n"
        return self._is_in

    def reports(self, within_s: float = 60.0) -> bool:
        """Return whether the process writes to standard error within `within_s` seconds.

        The default value leaves enough time for the start of the process."""
        return bool(select.select([self.popen.stderr], [], [], within_s)[0])

    def end(self) -> str:
        return self.popen.communicate("\n", timeout=20)[1]


Start = Callable[..., Process]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Process] = []

    def begin(how: str, shared: str = "shm", store: str = "store") -> Process:
        (tmp_path / shared).mkdir(exist_ok=True)
        started.append(Process(tmp_path / shared, tmp_path / store, how))
        return started[-1]

    yield begin
    for process in started:
        process.popen.kill()
        process.popen.communicate()


@pytest.mark.parametrize(("first", "second", "beside"), [
    ("busy", "busy", True), ("busy", "quiet", False), ("quiet", "busy", False), ("quiet", "quiet", False),
])  # fmt: skip
@pytest.mark.parametrize("where", [
    {"store": "another"},  # one machine, two stores
    {"shared": "another"},  # two containers, one store
])  # fmt: skip
def test_nothing_runs_beside_a_block(
    first: str, second: str, beside: bool, where: dict[str, str], start: Start
) -> None:
    one = start(first)
    assert one.is_in()
    other = start(second, **where)

    assert other.is_in(within_s=60.0 if beside else 0.7) == beside

    one.end()
    assert other.is_in()


@pytest.mark.parametrize("how", ["busy", "quiet"])
def test_removed_lock_files_admit_no_second_holder(how: str, start: Start, tmp_path: Path) -> None:
    # systemd removes a user's files in /dev/shm when the user logs out.
    one = start(how)
    assert one.is_in()
    for path in [*tmp_path.glob("shm/*"), *tmp_path.glob("store/locks/*")]:
        path.unlink()

    other = start("quiet")

    assert not other.is_in(within_s=0.7)
    one.end()
    assert other.is_in()


def test_a_stream_of_busy_processes_does_not_starve_a_timed_block(start: Start) -> None:
    one = start("busy")
    assert one.is_in()
    block = start("quiet")
    assert not block.is_in(within_s=0.3)
    later = start("busy")
    assert not later.is_in(within_s=0.7)
    one.end()
    assert block.is_in()
    assert not later.is_in(within_s=0.3)
    block.end()
    assert later.is_in()


@pytest.mark.parametrize(("first", "second", "doing"), [
    ("quiet", "busy", "measuring"), ("quiet", "quiet", "measuring"), ("busy", "quiet", "compiling or verifying"),
])  # fmt: skip
def test_a_process_that_waits_for_a_second_reports_the_holder(
    first: str, second: str, doing: str, start: Start, tmp_path: Path
) -> None:
    one = start(first)
    assert one.is_in()
    other = start(second)
    assert other.reports() and not other.is_in(within_s=0.0)
    one.end()
    assert other.is_in()

    user, folder = Path(f"/proc/{os.getpid()}").owner(), tmp_path / "shm"
    expected = f"waiting for process {one.popen.pid} ({user}, {folder}), which is {doing}\n"
    assert other.end() == expected


def test_a_short_wait_is_not_reported(start: Start) -> None:
    one = start("quiet")
    assert one.is_in()
    other = start("busy")
    assert not other.is_in(within_s=0.3)
    one.end()
    assert other.is_in()
    assert other.end() == ""


def test_a_stopped_process_is_reported_as_stopped(start: Start) -> None:
    one = start("quiet")
    assert one.is_in()
    one.popen.send_signal(signal.SIGSTOP)
    other = start("busy")
    assert other.reports() and not other.is_in(within_s=0.0)
    one.popen.send_signal(signal.SIGCONT)
    one.end()
    assert other.is_in()
    assert ", stopped), which is measuring" in other.end()


def test_within_a_block_the_same_thread_may_be_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "locks").mkdir()
    for shared in (Path("/dev/shm"), tmp_path):
        monkeypatch.setattr(locks, "_SHARED_MEMORY", shared)
        machine = MachineLock(tmp_path)
        with machine.quiet(), machine.busy():
            pass
        with machine.busy(), machine.busy():
            pass


def test_a_claim_has_the_pid_of_its_holder(tmp_path: Path) -> None:
    mine, key, other = Claims(tmp_path / "claims"), "f" * 32, "0" * 32
    assert mine.take(key)
    theirs = Claims(tmp_path / "claims")
    assert not theirs.take(key)
    assert theirs.take(other)
    assert theirs.holder(key) == os.getpid()
    mine.drop(key)
    assert theirs.holder(key) == 0
    assert theirs.take(key)


def test_a_lock_that_is_closed_while_its_holders_are_read_is_no_error(monkeypatch):
    # The wait may end, and close the lock, while the lock's holders are looked up.
    monkeypatch.setattr(holders, "PATIENCE_S", 0.0)
    monkeypatch.setattr(holders, "_AGAIN_S", 0.0)
    looked, twice = [], threading.Event()

    def whom():
        looked.append(None)
        if len(looked) == 2:
            twice.set()
        raise OSError(errno.EBADF, "Bad file descriptor")

    with holders.report_while_waiting(whom):
        assert twice.wait(10)


def test_a_process_with_two_locks_on_a_file_is_listed_once(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as one, (tmp_path / "lock").open() as other:
        for file in (one, other):
            fcntl.flock(file, fcntl.LOCK_SH)
        assert holders.of(one.fileno()) == [holders.Holder(os.getpid(), False)]
