"""This machine: its CPU, the devices that run on it, and the conditions of a measurement."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from dispatchflow import devices, processes
from dispatchflow.commands import environment
from dispatchflow.errors import ToolchainError
from dispatchflow.keys import digest_of, key_of
from dispatchflow.locks import Machine
from dispatchflow.store import Store
from dispatchflow.targets import Device, HostCpu, Target
from dispatchflow.toolchain import Toolchain

_CPU = Path("/sys/devices/system/cpu")
_TRIVIAL = "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }\n"


@dataclass(frozen=True, slots=True)
class Cpu:
    model: str
    flags: str
    microcode: str


@lru_cache(maxsize=1)
def cpu() -> Cpu:
    text = Path("/proc/cpuinfo").read_text(errors="replace").split("\n\n")[0]
    fields: dict[str, str] = dict(re.findall(r"^([^\t:]+?)\s*:\s*(.*)$", text, re.MULTILINE))
    model = " ".join(fields.get(name, "") for name in ("model name", "cpu family", "model", "stepping"))
    return Cpu(
        model.strip() or platform.machine(),
        fields.get("flags", fields.get("Features", "")),
        fields.get("microcode", ""),
    )


@lru_cache(maxsize=1)
def cores() -> tuple[int, ...]:
    """One logical CPU for each physical core that this process may use."""
    allowed = os.sched_getaffinity(0)
    firsts: dict[str, int] = {}
    for number in sorted(allowed):
        siblings = _CPU / f"cpu{number}/topology/thread_siblings_list"
        firsts.setdefault(siblings.read_text() if siblings.exists() else str(number), number)
    return tuple(firsts.values())


def device(target: Target, threads: int | None, toolchain: Toolchain, store: Store) -> Device:
    """The device of a target with so many threads. The last cores: the first serve most interrupts.

    Raises:
        ValueError: more threads than cores.
    """
    if not target.has_threads:
        return devices.found(target.driver, toolchain, store)
    count = threads or len(cores())
    if count > len(cores()):
        raise ValueError(f"{count} threads, but {len(cores())} cores")
    uri, processor = target.device(count), cpu()
    identity = {
        "uri": uri,
        "cpu": processor.model,
        "features": digest_of(processor.flags.encode()),
        "microcode": processor.microcode,
    }
    if target.runtime_is_code:
        identity["runtime"] = toolchain.runtime_digest
    lacking = [feature for feature in target.needs_features if feature not in processor.flags.split()]
    absent = f"this CPU has no {', '.join(lacking)}" if lacking else None
    return Device(uri, count, cores()[-count:], identity, absent)


def host_cpu(store: Store, toolchain: Toolchain) -> HostCpu:
    """The compiler's name and features for this CPU, asked once a machine and passed to every toolchain alike.

    Only features that it has: the list of those it lacks grows with each LLVM and would change every digest.

    Raises:
        ToolchainError: the compiler does not say.
    """
    processor = cpu()
    name = f"host:{key_of('host', {'model': processor.model, 'flags': processor.flags})}"
    if remembered := store.records.remembered(name):
        return HostCpu(*remembered.split("\n"))
    flags = (
        "--iree-hal-target-device=local",
        "--iree-hal-local-target-device-backends=llvm-cpu",
        "--iree-llvmcpu-target-cpu=host",
        "--compile-to=executable-targets",
    )
    with Machine().busy(), store.scratch() as scratch:
        (scratch / "trivial.mlir").write_text(_TRIVIAL)
        argv = (toolchain.compiler, "trivial.mlir", *flags, "-o", "-")
        outcome = processes.run(processes.Command(argv, scratch, env=environment({}), time_limit_s=60))
        text = (scratch / "stdout").read_text(errors="replace")
        errors = processes.shortened(scratch / "stderr", 400)
    found = re.search(r'cpu = "([^"]+)", cpu_features = "([^"]*)"', text)
    if found is None:
        raise ToolchainError(
            "the compiler does not tell this CPU's name",
            {"command": processes.quoted(argv), "found": outcome.failure, "stderr": errors},
        )
    features = dict.fromkeys(feature for feature in found[2].split(",") if feature.startswith("+"))
    host = HostCpu(found[1], ",".join(features))
    store.records.remember(name, f"{host.name}\n{host.features}")
    return host


def memory_bytes() -> int:
    """Of the machine, or of the container that we are in; used or not."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = (Path("/sys/fs/cgroup", name) for name in ("memory.max", "memory/memory.limit_in_bytes"))
    found = [path.read_text().strip() for path in limits if path.exists()]
    return min([physical, *(int(text) for text in found if text.isdecimal())])


def last_level_cache_bytes() -> int | None:
    sizes = [path.read_text().strip() for path in _CPU.glob("cpu0/cache/index*/size")]
    known = [int(size[:-1]) * {"K": 1 << 10, "M": 1 << 20}[size[-1]] for size in sizes if size[-1:] in "KM"]
    return max(known, default=None)


def conditions() -> dict[str, Any]:
    """What may disturb a measurement, as the system tells it; unknown ones are left out."""
    found: dict[str, Any] = {"load_1m": os.getloadavg()[0], "cpus_allowed": sorted(os.sched_getaffinity(0))}
    for name, path in {
        "governor": _CPU / "cpu0/cpufreq/scaling_governor",
        "khz": _CPU / "cpu0/cpufreq/scaling_cur_freq",
        "turbo_off": _CPU / "intel_pstate/no_turbo",
        "boost": _CPU / "cpufreq/boost",
        "smt": _CPU / "smt/active",
        "cgroup_cpu_max": Path("/sys/fs/cgroup/cpu.max"),
    }.items():
        try:
            found[name] = path.read_text().strip()
        except OSError:
            continue
    if "khz" in found:
        found["mhz"] = int(found.pop("khz")) / 1000
    stat = Path("/proc/stat").read_text().splitlines()[0].split()
    found["steal_ticks"] = int(stat[8])
    return found
