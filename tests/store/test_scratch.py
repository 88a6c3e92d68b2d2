"""A scratch directory stays while a process uses it, and is removed afterwards.

It also stays if the process is in another container and therefore not visible."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dispatchflow.store import scratch

USER = """
import os, pathlib, sys
from dispatchflow.store import scratch
with scratch.directory(pathlib.Path(sys.argv[1])) as path:
    (path / "file").write_text("x")
    print(path, flush=True)
    sys.stdin.read()
"""
SWEEPER = "import pathlib, sys\nfrom dispatchflow.store import scratch\nscratch.sweep(pathlib.Path(sys.argv[1]))"


@pytest.fixture
def user(tmp_path):
    """Yield (a process that uses a scratch directory, the directory's path)."""
    argv = [sys.executable, "-c", USER, os.fspath(tmp_path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process, Path(process.stdout.readline().strip())


def test_a_directory_is_removed_afterwards(tmp_path):
    with scratch.directory(tmp_path) as path:
        (path / "file").write_text("x")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_in_use_stays_and_that_of_a_killed_process_is_removed(user, tmp_path):
    process, path = user
    scratch.sweep(tmp_path)
    assert (path / "file").exists()
    process.kill()
    process.wait()
    scratch.sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_in_use_stays_where_its_process_is_not_visible(user, tmp_path):
    # The sweep runs in its own process namespace, as in another container.
    _, path = user
    apart = ["unshare", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*apart, "true"], capture_output=True).returncode:
        pytest.skip("this system lets nobody have process numbers of their own (unshare --pid)")
    subprocess.run([*apart, sys.executable, "-c", SWEEPER, os.fspath(tmp_path)], check=True)
    assert (path / "file").exists()


def test_a_program_that_is_started_does_not_hold_the_directory(tmp_path):
    with scratch.directory(tmp_path) as path:
        os.system(f"ls -l /proc/$$/fd > '{path}/held'")
        assert os.fspath(path) + "\n" not in (path / "held").read_text()


def test_a_directory_that_is_removed_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    # The directory is removed once before it is opened, and once between its opening and its lock.
    opened, made = scratch._opened, []

    def slowly(path):
        made.append(path)
        if len(made) == 1:
            path.rmdir()
        descriptor = opened(path)
        if len(made) == 2:
            path.rmdir()
        return descriptor

    monkeypatch.setattr(scratch, "_opened", slowly)
    with scratch.directory(tmp_path) as path:
        assert made[2:] == [path]
        assert path.is_dir()


def test_concurrent_sweeps_remove_no_directory_in_use(tmp_path):
    done = threading.Event()

    def sweep():
        while not done.is_set():
            scratch.sweep(tmp_path)

    sweepers = [threading.Thread(target=sweep) for _ in range(2)]
    for thread in sweepers:
        thread.start()
    try:
        for number in range(60):
            with scratch.directory(tmp_path) as path:
                (path / "file").write_text(str(number))
                assert (path / "file").read_text() == str(number)
    finally:
        done.set()
        for thread in sweepers:
            thread.join()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_not_a_directory_is_left_alone(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path)
    scratch.sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"pipe", "link"}
