"""The CPU and memory limits of a control group (cgroup) are read from a fake file system."""

from pathlib import Path

import pytest

from dispatchflow.iree.targets import TARGETS
from dispatchflow.tools import control_groups, devices, machine
from dispatchflow.tools.limits import Limits

V2 = "31 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate"
V1 = """\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw"""


def tree(root: Path, mounts: str, groups: str, **files: str) -> Path:
    """Write a fake file system below `root`, and return `root`.

    `mounts` and `groups` are the texts of `mountinfo` and `cgroup` in /proc/self. The keywords of `files` are paths
    below /sys/fs/cgroup, and the values are the texts of these files."""
    named = {"proc/self/mountinfo": mounts, "proc/self/cgroup": groups}
    for path, text in {**named, **{f"sys/fs/cgroup/{name}": text for name, text in files.items()}}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text + "\n")
    return root


@pytest.mark.parametrize(
    ("mounts", "groups", "files", "quota", "memory"),
    [
        (V2, "0::/", {}, None, None),
        (V2, "0::/a.slice/b.scope", {"a.slice/cpu.max": "max 100000", "a.slice/memory.max": "max"}, None, None),
        (
            V2,
            "0::/a.slice/b.scope",
            {
                "a.slice/cpu.max": "150000 100000",
                "a.slice/b.scope/cpu.max": "400000 100000",
                "a.slice/b.scope/memory.max": "1000",
                "a.slice/memory.max": "2000",
                "other.slice/cpu.max": "1000 100000",
            },
            "150000 100000",
            1000,
        ),
        (V2, "0::/", {"cpu.max": "50000 100000", "memory.max": "77"}, "50000 100000", 77),
        (
            V1,
            "4:memory:/m/n\n2:cpu,cpuacct:/q\n0::/",
            {
                "cpu,cpuacct/cpu.cfs_quota_us": "-1",
                "cpu,cpuacct/cpu.cfs_period_us": "100000",
                "cpu,cpuacct/q/cpu.cfs_quota_us": "250000",
                "cpu,cpuacct/q/cpu.cfs_period_us": "100000",
                "memory/memory.limit_in_bytes": "9223372036854771712",
                "memory/m/memory.limit_in_bytes": "4096",
            },
            "250000 100000",
            4096,
        ),
        # A container that sees its own group as the root of the mount, and one whose group is outside of it.
        (V2.replace("/ /sys", "/docker/x /sys"), "0::/docker/x/y", {"y/cpu.max": "1 2"}, "1 2", None),
        (V2, "0::/../other", {"cpu.max": "3 2"}, "3 2", None),
        ("", "0::/a", {"a/cpu.max": "1 2"}, None, None),
    ],
)
def test_the_tightest_limit_of_a_group_and_its_parents_applies(mounts, groups, files, quota, memory, tmp_path):
    root = tree(tmp_path, mounts, groups, **files)
    found = control_groups.cpu_quota(root)
    assert (found and str(found), control_groups.memory_bytes(root)) == (quota, memory)


def test_without_control_groups_there_is_no_limit(tmp_path):
    assert control_groups.cpu_quota(tmp_path) is None
    assert control_groups.memory_bytes(tmp_path) is None


@pytest.mark.parametrize(("quota", "threads"), [("50000 100000", 1), ("199999 100000", 1), ("300000 100000", 3)])
def test_all_threads_are_as_many_as_the_quota_allows(quota, threads, tmp_path, monkeypatch):
    root = tree(tmp_path, V2, "0::/", **{"cpu.max": quota})
    monkeypatch.setattr(machine, "cores", lambda: (0, 1, 2, 3, 4))
    found = control_groups.cpu_quota(root)
    monkeypatch.setattr(control_groups, "cpu_quota", lambda: found)
    target = TARGETS["llvm-cpu"]
    device = devices.of_target(target, None, None, None, Limits())
    assert (device.threads, device.cpus) == (threads, (0, 1, 2, 3, 4)[-threads:])
    assert devices.of_target(target, 5, None, None, Limits()).threads == 5
    assert machine.conditions()["cgroup_cpu_max"] == quota
