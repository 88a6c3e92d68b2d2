"""A program's outcome reports how long it waited for its CPUs because other programs ran on them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.programs import python

from dispatchflow.timing.statistics import waited_too_long
from dispatchflow.tools import _launcher

pytest_plugins = ["support.programs"]

_TEAM = """
import hashlib, os, sys, threading, time
def work(cpu):
    os.sched_setaffinity(0, {cpu})
    while time.monotonic() < end: hashlib.sha256(block)  # without the interpreter's lock
    done.wait()
block, end, done = bytes(1 << 20), time.monotonic() + 0.4, threading.Event()
threads = [threading.Thread(target=work, args=(int(cpu),)) for cpu in sys.argv[1:]]
for thread in threads: thread.start()
time.sleep(0.5)
print("measured", flush=True)  # while its threads live, as a benchmark does
time.sleep(0.5)
done.set()
"""


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this kernel counts no waits")
@pytest.mark.parametrize("count", [1, 2])
def test_time_that_a_neighbour_had_one_of_its_cpus_is_reported(folder, count):
    # A thread that shares its CPU with a busy loop waits half of the time: steady but wrong times.
    cpus = sorted(os.sched_getaffinity(0))[-count:]
    if len(cpus) < count:
        pytest.skip("one CPU")
    code = f"import os\nos.sched_setaffinity(0, {{{cpus[-1]}}})\nwhile 1: pass"
    with subprocess.Popen([sys.executable, "-c", code]) as busy:
        try:
            outcome = python(folder, _TEAM, *map(str, cpus), cpus=tuple(cpus), count_waits=True)
        finally:
            busy.kill()
    assert waited_too_long(outcome.waited_s / outcome.wall_s), outcome


def test_sleeping_is_no_wait_for_a_cpu_and_waits_are_reported_on_request_only(folder):
    cpus = (max(os.sched_getaffinity(0)),)
    assert (python(folder, "import time; time.sleep(0.3)", cpus=cpus, count_waits=True).waited_s or 0.0) < 0.1
    assert python(folder, "pass", cpus=cpus).waited_s is None


@pytest.mark.parametrize(("others_ran_s", "waited_s"), [(0.0, 0.0), (0.06, 0.06 - 0.01 * (1 + 2**0.5)), (9.0, 0.05)])
def test_threads_of_one_tool_that_wait_for_each_other_are_not_disturbed(monkeypatch, others_ran_s, waited_s):
    # The threads of a task system are woken by each other thousands of times, on the same CPUs.
    idle_s, now_s = iter([100.0, 100.1 - others_ran_s / 2]), iter([5.0, 5.1])
    monkeypatch.setattr(_launcher._Waits, "_idle_s", lambda waits: next(idle_s))
    monkeypatch.setattr(_launcher.time, "monotonic", lambda: next(now_s))
    waits = _launcher._Waits([0, 1])
    waits.threads = {"1": (8_000_000, 50_000_000), "helper that hardly ran": (1000, 90_000_000)}
    assert waits.seconds(0.1 - others_ran_s / 2) == pytest.approx(waited_s)
