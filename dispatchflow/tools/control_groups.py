"""Read the CPU and memory limits of this process's control group and of the group's ancestors.

Both versions of cgroups(7) are supported. In each function, the argument `root` is the directory that contains `proc`
and `sys`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_ROOT = Path("/")


@dataclass(frozen=True, slots=True)
class Quota:
    """A limit on CPU time: `quota_us` microseconds in each period of `period_us` microseconds."""

    quota_us: int
    period_us: int

    @property
    def cpus(self) -> float:
        return self.quota_us / self.period_us

    def __str__(self) -> str:
        """Return the quota in the form of the kernel's file `cpu.max`, such as `50000 100000`."""
        return f"{self.quota_us} {self.period_us}"


def cpu_quota(root: Path = _ROOT) -> Quota | None:
    """Return the smallest CPU quota that this process's control group or one of its ancestors has.

    Returns None if none of these groups has a quota."""
    found = []
    for folder in _folders("cpu", root):
        words = _words(folder / "cpu.max") or [
            *_words(folder / "cpu.cfs_quota_us"),
            *_words(folder / "cpu.cfs_period_us"),
        ]
        if len(words) == 2 and all(word.isdecimal() for word in words) and int(words[1]):
            found.append(Quota(int(words[0]), int(words[1])))
    return min(found, key=lambda quota: quota.cpus, default=None)


def memory_bytes(root: Path = _ROOT) -> int | None:
    """Return the smallest memory limit that this process's control group or one of its ancestors has.

    If there is no limit, the result is None with version 2 of cgroups. With version 1, the result is then a number that
    is larger than any memory."""
    words = [
        word
        for folder in _folders("memory", root)
        for name in ("memory.max", "memory.limit_in_bytes")
        for word in _words(folder / name)
    ]
    return min((int(word) for word in words if word.isdecimal()), default=None)


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def _folders(controller: str, root: Path) -> Iterator[Path]:
    """Yield the directories of this process's control group and of the group's ancestors.

    With version 1 of cgroups, each controller, such as `cpu`, has its own groups. Only the groups of the controller
    `controller` are then used."""
    mounts = list(_mounts(root, controller))
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        kind = "cgroup" if controllers else "cgroup2"
        for top, place in (mount[1:] for mount in mounts if mount[0] == kind):
            ours = PurePosixPath(path)
            # In a container the path may be one of the host, not mounted here; then only the mount point is used.
            below = ours.relative_to(top) if ours.is_relative_to(top) and ".." not in ours.parts else PurePosixPath()
            yield from (root / place.lstrip("/") / part for part in (below, *below.parents))


def _mounts(root: Path, controller: str) -> Iterator[tuple[str, str, str]]:
    """Yield (file system type, mounted group, mount point) of cgroup mounts.

    With version 1 of cgroups, only the mounts that have the controller `controller` are yielded."""
    for line in _lines(root / "proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        kind, _, options = [*after.split(" ", 2), "", ""][:3]
        # With version 1 of cgroups, each controller may have a hierarchy of its own.
        if kind == "cgroup2" or (kind == "cgroup" and controller in options.split(",")):
            top, place = (re.sub(r"\\(\d{3})", lambda m: chr(int(m[1], 8)), word) for word in before.split()[3:5])
            yield kind, top, place


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return []
