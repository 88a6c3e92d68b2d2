"""Facts about this machine: its CPU, cores and memory, and the conditions of a measurement."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from dispatchflow.keys import digest_of
from dispatchflow.tools import control_groups

_CPU = Path("/sys/devices/system/cpu")


@dataclass(frozen=True, slots=True)
class Cpu:
    model: str
    flags: str
    microcode: str


@lru_cache(maxsize=1)
def cpu() -> Cpu:
    """Return the model, flags and microcode of this machine's CPU.

    If the machine has cores of different speeds, the result describes the core that runs cases with one thread."""
    return described(Path("/proc/cpuinfo").read_text(errors="replace"), reported(cores()))


def described(text: str, number: int) -> Cpu:
    """Return the model, flags and microcode of a CPU, as read from `text`.

    `text` is the content of /proc/cpuinfo. If `text` has no entry for the CPU `number`, the first entry is used."""
    blocks = text.split("\n\n")
    block = next((b for b in blocks if re.search(rf"^processor\s*:\s*{number}$", b, re.MULTILINE)), blocks[0])
    fields: dict[str, str] = dict(re.findall(r"^([^\t:]+?)\s*:\s*(.*)$", block, re.MULTILINE))
    model = " ".join(fields.get(name, "") for name in ("model name", "cpu family", "model", "stepping"))
    return Cpu(
        model.strip() or os.uname().machine,
        fields.get("flags", fields.get("Features", "")),
        fields.get("microcode", ""),
    )


_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))


@lru_cache(maxsize=1)
def identity() -> str:
    """Return a digest (hash) of the machine's id and host name. It identifies this machine.

    Measured times are reused only if this digest is the same."""
    # The id alone is not enough: machines that were made from one image often have the same id.
    ids = [path.read_text().strip() for path in _IDS if path.is_file()]
    # machine-id(5): the id itself must not be exposed.
    return digest_of("\n".join(["dispatchflow", *ids[:1], os.uname().nodename]).encode())


def hypervisor() -> str | None:
    """Return the name of the hypervisor or of its vendor, such as `QEMU`.

    The result is `unknown` in a virtual machine that reports no name, and None on a physical machine."""
    if "hypervisor" not in cpu().flags.split():
        return None
    for path in (Path("/sys/hypervisor/type"), Path("/sys/class/dmi/id/sys_vendor")):
        with suppress(OSError):
            if said := path.read_text().strip():
                return said
    return "unknown"


@lru_cache(maxsize=1)
def cores() -> tuple[int, ...]:
    """Return one logical CPU for each physical core that this process may use.

    The fastest cores come last."""
    return ordered(os.sched_getaffinity(0))


def ordered(allowed: Iterable[int], root: Path = Path("/")) -> tuple[int, ...]:
    """Return one of the `allowed` logical CPUs for each physical core.

    The fastest cores come last. `root` is the directory that contains `sys`."""
    firsts: dict[str, int] = {}
    for number in sorted(allowed):
        siblings = root / f"sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list"
        firsts.setdefault(siblings.read_text() if siblings.exists() else str(number), number)
    speed = _speeds(root)
    return tuple(sorted(firsts.values(), key=speed))  # the sort is stable: equal cores keep their order


def reported(cores: Sequence[int], root: Path = Path("/")) -> int:
    """Return the system's number of the logical CPU whose model and clock are recorded.

    If the machine has cores of different speeds, the result is the last of `cores`, because a case with one thread
    runs on the last core. Otherwise the result is 0."""
    return cores[-1] if len(set(map(_speeds(root), cores))) > 1 else 0


_SLOWEST_FIRST = ("cpu_lowpower", "cpu_atom", "cpu_core")


def _speeds(root: Path) -> Callable[[int], int]:
    """Return a function from the number of a logical CPU to a rank. A faster CPU has a higher rank.

    The rank is 0 if the kernel reports nothing about the CPU's speed."""
    kinds: dict[int, int] = {}
    for speed, kind in enumerate(_SLOWEST_FIRST):
        with suppress(OSError):
            text = (root / "sys/devices" / kind / "cpus").read_text().strip()
            for first, _, last in (words.partition("-") for words in text.split(",") if words):
                kinds |= dict.fromkeys(range(int(first), int(last or first) + 1), speed)

    def speed_of(number: int) -> int:
        with suppress(OSError, ValueError):
            return int((root / f"sys/devices/system/cpu/cpu{number}/cpu_capacity").read_text())
        return kinds.get(number, 0)

    return speed_of


def workers() -> int:
    """Return the number of cores that this process may use, or the CPU quota if the quota is smaller.

    The quota is rounded down to whole CPUs. The result is at least 1."""
    quota = control_groups.cpu_quota()
    return len(cores()) if quota is None else min(len(cores()), max(1, int(quota.cpus)))


def memory_bytes() -> int:
    """Return the size of the machine's memory, or the container's limit if the limit is lower."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = control_groups.memory_bytes()
    return physical if limit is None else min(physical, limit)


def last_level_cache_bytes() -> int | None:
    sizes = [path.read_text().strip() for path in _CPU.glob("cpu0/cache/index*/size")]
    known = [int(size[:-1]) * {"K": 1 << 10, "M": 1 << 20}[size[-1]] for size in sizes if size[-1:] in "KM"]
    return max(known, default=None)


def conditions() -> dict[str, Any]:
    """Return the conditions that may influence a measurement, such as `governor` and `load_1m`."""
    core = f"cpu{reported(cores())}"
    found: dict[str, Any] = {
        "machine": identity(),
        "host": os.uname().nodename,
        "kernel": os.uname().release,
        "cores": len(cores()),
        "hypervisor": hypervisor(),
        "load_1m": os.getloadavg()[0],
        "cpus_allowed": sorted(os.sched_getaffinity(0)),
    }
    for name, path in {
        "governor": _CPU / core / "cpufreq/scaling_governor",
        "khz": _CPU / core / "cpufreq/scaling_cur_freq",
        "turbo_off": _CPU / "intel_pstate/no_turbo",
        "boost": _CPU / "cpufreq/boost",
        "smt": _CPU / "smt/active",
    }.items():
        try:
            found[name] = path.read_text().strip()
        except OSError:
            continue
    if quota := control_groups.cpu_quota():
        found["cgroup_cpu_max"] = str(quota)
    if "khz" in found:
        found["mhz"] = int(found.pop("khz")) / 1000
    stat = Path("/proc/stat").read_text().splitlines()[0].split()
    found["steal_ticks"] = int(stat[8])
    return found
