"""If a CPU has several kinds of cores, its cores are ordered by speed, the fastest last.

A fake file system says which kinds there are."""

import os
from pathlib import Path

import pytest

from dispatchflow.tools import machine

ATOM = {"sys/devices/cpu_core/cpus": "0-3", "sys/devices/cpu_atom/cpus": "4-7"}
LOW_POWER = {**ATOM, "sys/devices/cpu_atom/cpus": "4-5", "sys/devices/cpu_lowpower/cpus": "6-7"}
CAPACITIES = {f"sys/devices/system/cpu/cpu{n}/cpu_capacity": c for n, c in enumerate(("1024", "446", "446", "871"))}
SAME = {f"sys/devices/system/cpu/cpu{n}/cpu_capacity": "1024" for n in range(4)}
PAIRS = {
    f"sys/devices/system/cpu/cpu{n}/topology/thread_siblings_list": f"{n // 2 * 2}-{n // 2 * 2 + 1}" for n in range(4)
}


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")
    return root


@pytest.mark.parametrize(
    ("files", "allowed", "cores", "hybrid"),
    [
        ({}, {0, 1, 2}, (0, 1, 2), False),
        (SAME, {0, 1, 2, 3}, (0, 1, 2, 3), False),
        (PAIRS, {0, 1, 2, 3}, (0, 2), False),
        (ATOM | PAIRS, set(range(8)), (4, 5, 6, 7, 0, 2), True),
        (ATOM, {5, 6}, (5, 6), False),
        (LOW_POWER, set(range(8)), (6, 7, 4, 5, 0, 1, 2, 3), True),
        (CAPACITIES, {0, 1, 2, 3}, (1, 2, 3, 0), True),
        (CAPACITIES, {1, 2, 3}, (1, 2, 3), True),
    ],
)
def test_fastest_cores_are_last(files, allowed, cores, hybrid, tmp_path):
    root = tree(tmp_path, files)
    assert machine.ordered(allowed, root) == cores
    assert machine.reported(cores, root) == (cores[-1] if hybrid else 0)


def test_reported_cpu_is_the_one_that_a_single_thread_runs_on():
    text = "processor\t: 0\nmodel name\t: E\nflags\t\t: a\n\nprocessor\t: 5\nmodel name\t: P\nflags\t\t: a b\nmicrocode\t: 0x1\n\n"
    assert machine.described(text, 5) == machine.Cpu("P", "a b", "0x1")
    assert machine.described(text, 0) == machine.Cpu("E", "a", "")
    assert machine.described(text, 7) == machine.described(text, 0)
    assert machine.described("", 0) == machine.Cpu(os.uname().machine, "", "")
