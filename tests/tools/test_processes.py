"""Programs are started, limited and ended, and their outcome is reported."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from support.programs import SHELL, python, shell

from dispatchflow.tools import processes
from dispatchflow.tools.outcome import Outcome
from dispatchflow.tools.processes import Command, run

pytest_plugins = ["support.programs"]


def alive(pid: int) -> bool:
    """Return whether a process runs; a zombie counts as dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def gone(pids: list[int], within_s: float = 5.0) -> bool:
    end = time.monotonic() + within_s
    while any(map(alive, pids)) and time.monotonic() < end:
        time.sleep(0.01)
    return not any(map(alive, pids))


def written_pids(path: Path, count: int) -> list[int]:
    end = time.monotonic() + 5
    while time.monotonic() < end:
        if path.exists() and len(path.read_text().split()) == count:
            return [int(word) for word in path.read_text().split()]
        time.sleep(0.01)
    raise AssertionError(f"{path} does not name {count} processes")


@pytest.mark.parametrize(("code", "failure"), [(0, None), (1, "exit code 1"), (77, "exit code 77")])
def test_exit_code_is_reported(code, failure, folder):
    outcome = shell(folder, f"exit {code}")
    assert (outcome.code, outcome.timed_out, outcome.failure) == (code, False, failure)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGABRT])
def test_signal_is_reported_by_name(number, folder):
    outcome = shell(folder, f"kill -{int(number)} $$")
    assert (outcome.code, outcome.failure) == (-number, f"died by {number.name}")


def test_signal_without_a_name_is_reported_by_number():
    assert "40" in Outcome(-40, False, 0.0, 0.0, 0).failure


def test_without_stdin_there_is_nothing_to_read(folder):
    assert shell(folder, "cat", time_limit_s=5).code == 0
    assert (folder / "stdout").read_bytes() == b""


ODD = [
    "",
    " ",
    "a b",
    "'",
    '"',
    "$HOME",
    "`id`",
    "*",
    "-",
    "--",
    "--flag=a b",
    "\\",
    "\n",
    "é€😀",
    os.fsdecode(b"\xff\xfe"),
    "\x7f",
]


def test_arguments_arrive_as_they_are(folder):
    script = "import os, sys; os.write(1, b'\\0'.join(map(os.fsencode, sys.argv[1:])))"
    assert python(folder, script, *ODD).failure is None
    assert (folder / "stdout").read_bytes().split(b"\0") == [os.fsencode(argument) for argument in ODD]


def test_directory_and_environment_of_any_bytes_arrive(tmp_path):
    folder = tmp_path / os.fsdecode(b"\xff -x")
    folder.mkdir()
    odd = os.fsdecode(b"\xfe =\n")
    assert run(Command((SHELL, "-c", 'printf %s "$ODD"; pwd >&2'), folder, env={"ODD": odd})).failure is None
    assert (folder / "stdout").read_bytes() == os.fsencode(odd)
    assert (folder / "stderr").read_bytes().rstrip() == os.fsencode(folder)


def test_environment_has_only_the_given_variables(folder, monkeypatch):
    monkeypatch.setenv("SECRET", "x")
    run(Command(("/usr/bin/env",), folder, env={"A": "1"}))
    assert (folder / "stdout").read_text() == "A=1\n"


@pytest.mark.parametrize("program", ["/no/such/program", "relative", "/dev/null", "/"])
def test_program_that_cannot_be_started_is_an_error_that_names_it_and_the_next_one_runs(program, folder):
    with pytest.raises(OSError, match=program):
        run(Command((program, "x"), folder))
    assert shell(folder, "exit 3").code == 3


def test_argument_with_a_null_byte_is_an_error(folder):
    with pytest.raises(OSError, match="null byte"):
        run(Command((SHELL, "a\0b"), folder))


def test_directory_that_is_missing_is_an_error(folder):
    with pytest.raises(OSError, match="No such file or directory"):
        run(Command((SHELL, "-c", ""), folder / "missing"))


def test_time_limit_kills_the_whole_group(folder):
    began = time.monotonic()
    outcome = shell(folder, "sleep 60 & echo $! $$; sleep 60", stdout="pids", time_limit_s=0.2)
    assert time.monotonic() - began < 5
    assert outcome.timed_out
    assert outcome.code == -signal.SIGKILL
    assert outcome.failure.startswith("took longer than 0.2")
    assert gone(written_pids(folder / "pids", 2))


def test_processes_that_a_program_leaves_behind_are_killed(folder):
    assert shell(folder, "sleep 60 & echo $!", stdout="pids").code == 0
    assert gone(written_pids(folder / "pids", 1))


def test_processes_that_a_program_leaves_behind_in_another_session_are_killed(folder):
    script = "setsid sh -c 'echo $$; sleep 60 & echo $!; exec sleep 61' & sleep 0.3"
    assert shell(folder, script, stdout="pids").code == 0
    assert gone(written_pids(folder / "pids", 2))
    assert shell(folder, f"{script}; sleep 60", stdout="more", time_limit_s=0.6).timed_out
    assert gone(written_pids(folder / "more", 2))


def test_launcher_ends_silently_when_its_parent_is_gone(folder):
    request = {"argv": ["/bin/sleep", "0.1"], "cwd": os.fspath(folder), "env": {}, "stdin": None, "cpus": []}
    request |= {"stdout": "o", "stderr": "e", "time_limit_s": 9, "memory_limit_bytes": None}
    request |= {"output_limit_bytes": 1000}
    for line in (json.dumps(request) + "\n", json.dumps(request)[:40]):
        with subprocess.Popen(
            [sys.executable, "-I", processes._LAUNCHER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as launcher:
            launcher.stdout.close()
            launcher.stdin.write(line.encode())
            launcher.stdin.flush()
            if not line.endswith("\n"):
                launcher.stdin.close()
            assert launcher.stderr.read() == b""
        assert launcher.returncode == 0


def test_memory_limit_applies_to_written_memory_not_to_addresses(folder):
    script = "import mmap; mmap.mmap(-1, 1 << 30, mmap.MAP_PRIVATE, 0)"  # reserved, without access
    assert python(folder, script, memory_limit_bytes=128 << 20).code == 0


def test_memory_limit_holds(folder):
    script = "len(bytearray(160 << 20))"
    assert python(folder, script).code == 0
    outcome = python(folder, script, memory_limit_bytes=128 << 20)
    assert outcome.code == 1
    assert "MemoryError" in (folder / "stderr").read_text()


def test_peak_memory_is_the_tool_s_own(folder):
    ballast = bytearray(200 << 20)
    small = shell(folder, "exit").peak_bytes
    large = python(folder, "len(bytearray(100 << 20))").peak_bytes
    assert 0 < small < 60 << 20 < 100 << 20 < large < 180 << 20
    assert ballast


def test_times_are_measured(folder):
    outcome = shell(folder, "sleep 0.1")
    assert 0.1 <= outcome.wall_s < 5
    assert outcome.cpu_s < 0.1
    busy = python(folder, "import time\nwhile time.process_time() < 0.1: pass")
    assert 0.1 <= busy.cpu_s <= busy.wall_s * 1.5


def test_program_runs_on_the_given_cpus(folder):
    cpu = max(os.sched_getaffinity(0))
    python(folder, "import os; print(os.sched_getaffinity(0))", cpus=(cpu,))
    assert (folder / "stdout").read_text() == f"{{{cpu}}}\n"


def test_threads_run_programs_in_parallel(tmp_path):
    # Each program waits for the other two, so programs that ran one after another would never end.
    codes: dict[int, int] = {}

    def work(number: int) -> None:
        script = f"touch {number}; until [ -e 0 -a -e 1 -a -e 2 ]; do sleep 0.01; done; exit {number}"
        codes[number] = shell(tmp_path, script, stdout=f"out{number}", time_limit_s=10).code

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == {0: 0, 1: 1, 2: 2}


def test_launcher_that_was_killed_is_replaced(folder):
    shell(folder, "")
    launcher = processes._local.launcher
    launcher.kill()
    launcher.wait()
    assert shell(folder, "exit 5").code == 5


def test_launcher_that_is_killed_while_a_program_runs_is_an_error_and_the_program_dies(folder):
    shell(folder, "")
    killer = threading.Timer(0.2, processes._local.launcher.kill)
    killer.start()
    with pytest.raises(OSError, match="launcher process was killed"):
        run(Command((SHELL, "-c", "sleep 60 & echo $! $$; sleep 60"), folder, stdout="pids"))
    assert gone(written_pids(folder / "pids", 2))  # the program, and what it had started
    assert shell(folder, "exit 6").code == 6


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_program_outlives_us(number, folder):
    script = (
        "import sys; from pathlib import Path; from dispatchflow.tools.processes import Command, run\n"
        f"run(Command(('{SHELL}', '-c', 'sleep 60 & echo $! $$; sleep 60'), Path(sys.argv[1]), stdout='pids'))"
    )
    with subprocess.Popen([sys.executable, "-c", script, os.fspath(folder)]) as parent:
        pids = written_pids(folder / "pids", 2)
        assert all(map(alive, pids))
        parent.send_signal(number)
    assert gone(pids)


def test_quoted_line_is_read_back_by_a_shell(folder):
    line = processes.quoted(["printf", "%s\\n", *(a for a in ODD if "\n" not in a and a.isprintable())])
    shell(folder, line)
    assert (folder / "stdout").read_text().split("\n")[:-1] == [a for a in ODD if "\n" not in a and a.isprintable()]
