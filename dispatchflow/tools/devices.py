"""Find the devices of this machine: its CPU, and the devices that the drivers of IREE's runtime find."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from dispatchflow.errors import StoreError, ToolchainError
from dispatchflow.iree import cpu_features
from dispatchflow.iree.command_lines import device_environment, environment, libraries
from dispatchflow.iree.cpu_features import HostCpu
from dispatchflow.iree.release import syntax_of
from dispatchflow.iree.targets import TARGETS, Device, Target, named
from dispatchflow.iree.toolchain import Toolchain
from dispatchflow.keys import digest_of, key_of
from dispatchflow.store.store import Store
from dispatchflow.tools import machine, processes
from dispatchflow.tools.limits import Limits

_OTHER = "Try another toolchain: iree=3.12.0 selects a release."
_TRIVIAL = """\
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %b = arith.addf %a, %a : tensor<4xf32>
  return %b : tensor<4xf32>
}
"""

# The fields that identify a device. The driver compiles SPIR-V and PTX, so its version decides which code runs.
_IDENTITY = ("name", "api", "vendor_id", "device_id", "driver", "driver_info", "device_uuid", "driver_uuid")


def of_target(target: Target, threads: int | None, toolchain: Toolchain, store: Store, limits: Limits) -> Device:
    """Return the device that runs code for `target`.

    A CPU runs `threads` threads, or `machine.workers()` threads if `threads` is None. A GPU ignores `threads`.

    Raises:
        ValueError: `threads` is larger than the number of cores.
        ToolchainError: the compiler does not know the target's CPU, or `host_cpu` fails."""
    if not target.has_threads:
        with store.busy():
            return detect(target.driver, toolchain.tool("iree-run-module"), limits)
    count = threads or machine.workers()
    if count > len(machine.cores()):
        raise ValueError(f"{count} threads, but {len(machine.cores())} cores")
    uri, processor = target.device(count), machine.cpu()
    identity = {
        "uri": uri,
        "cpu": processor.model,
        "features": digest_of(processor.flags.encode()),
        "microcode": processor.microcode,
    }
    if target.runtime_is_code:
        identity["runtime"] = toolchain.runtime_digest
    absent = None
    if target.backend == "llvm-cpu" and not target.needs_host_cpu:
        here = host_cpu(store, toolchain, limits).features.split(",")
        needed = (feature for feature in features(target, toolchain, store, limits) if feature not in here)
        lacking = [feature[1:] for feature in needed if cpu_features.matters(feature[1:])]
        absent = f"this CPU has no {', '.join(lacking)}" if lacking else None
    # The first cores serve most interrupts, so the last cores are used.
    return Device(uri, count, machine.cores()[-count:], identity, absent)


def host_cpu(store: Store, toolchain: Toolchain, limits: Limits) -> HostCpu:
    """Return the CPU name and features with which the toolchain compiles for this machine.

    The field `features` of the result has only features that the machine offers.

    Raises:
        ToolchainError: the compiler does not report this machine's CPU; or this machine hides features of the
            reported CPU, and no CPU in `cpu_features.LEVELS` has only features that this machine offers."""
    processor = machine.cpu()
    asked = {"model": processor.model, "flags": processor.flags, "toolchain": toolchain.digest}
    name = f"host_cpu:{key_of('host_cpu', asked)}"
    if remembered := store.records.remembered(name):
        return HostCpu(*remembered.split("\n"))
    flags = (
        "--iree-hal-target-device=local",
        "--iree-hal-local-target-device-backends=llvm-cpu",
        f"{cpu_features.CPU_FLAG}host",
        "--compile-to=executable-targets",
    )
    problem = "the compiler does not report this CPU's name"
    text = _configured(store, flags, problem, toolchain, limits)
    if (printed := cpu_features.parse(text)) is None:
        found = text[:400].strip() or "nothing"
        raise ToolchainError(problem, {"compiler": toolchain.compiler, "found": found}, _OTHER)

    def implied(cpu: str) -> list[str]:
        target = named(f"llvm-cpu-{cpu}")
        return [] if target is None else features(target, toolchain, store, limits)

    # With missing features (`-avx512f`), an LLVM release that knows one more would change all cache keys.
    if (host := cpu_features.resolve(printed, implied)) is None:
        facts = {
            "compiler": toolchain.compiler,
            "CPU": f"{printed.name}, {printed.architecture or 'unknown architecture'}",
            "hidden": ", ".join(printed.hidden),
        }
        raise ToolchainError("the compiler's name for this CPU implies features that this machine hides", facts, _OTHER)
    _remember(store, name, "\n".join((host.name, host.features, host.named, host.hidden)))
    return host


def features(target: Target, toolchain: Toolchain, store: Store, limits: Limits) -> list[str]:
    """Return the features, such as `+avx`, that the compiler reports for the target's CPU.

    The result is empty for a GPU.

    Raises:
        ToolchainError: the compiler does not know this CPU or GPU."""
    flags = (*map(syntax_of(toolchain.version).flag, target.flags), "--compile-to=executable-targets")
    name = f"target:{key_of('target', {'flags': flags, 'toolchain': toolchain.digest})}"
    said = store.records.remembered(name)
    if said is None:
        alike = [name for name, known in TARGETS.items() if known.backend == target.backend]
        hint = f"Known targets of this backend: {', '.join(alike)}; this release may know more."
        problem = f"the compiler does not know '{target.name}'"
        found = cpu_features.parse(_configured(store, flags, problem, toolchain, limits, hint))
        said = ",".join(found.present) if found and not target.gpu else ""
        _remember(store, name, said)
    return said.split(",") if said else []


def _remember(store: Store, name: str, value: str) -> None:
    with suppress(StoreError):  # the disk is full
        store.records.remember(name, value)


def _configured(
    store: Store, flags: Sequence[str], problem: str, toolchain: Toolchain, limits: Limits, hint: str = _OTHER
) -> str:
    """Compile a trivial module with `flags`, and return the module that the compiler prints.

    The printed module names the target's CPU and its features. If the compile fails, a ToolchainError with the texts
    `problem` and `hint` is raised."""
    with store.busy():
        argv = (toolchain.compiler, "-", *flags, "-o", "-")
        command = processes.Command(
            argv, Path("/"), environment({}), time_limit_s=limits.compile_s, memory_limit_bytes=limits.memory_bytes
        )
        outcome, text, errors = processes.answer(command, stdin=_TRIVIAL)
    if failure := limits.failure("compile_limit", outcome, errors):
        said = "\n".join(errors.splitlines()[:2])  # the module and further errors follow
        facts = {"command": processes.quoted(argv), "found": failure} | ({"stderr": said} if said else {})
        raise ToolchainError(problem, facts, hint)
    return text


def detect(driver: str, tool: str, limits: Limits) -> Device:
    """Return the first device that the IREE driver `driver`, such as `cuda`, finds.

    If the driver finds no device, the field `absent` of the result says why. `tool` is the path of iree-run-module."""
    argv = (tool, f"--dump_devices={driver}")
    command = processes.Command(
        argv, Path("/"), device_environment(os.environ),
        time_limit_s=limits.run_s, memory_limit_bytes=limits.memory_bytes,
    )  # fmt: skip
    outcome, text, errors = processes.answer(command)
    uri, fields = parse(text)
    if uri is not None:
        identity = {"driver": driver, **driver_build(driver), **fields, **libraries(os.environ)}
        return Device(uri, 1, (), identity, architecture=architecture(text))
    # A missing driver fails under any limit, so a limit is reported only if it certainly caused the failure.
    hit = limits.hit("run_limit", outcome.timed_out, errors)
    ended = hit.reason(None) if hit and hit.certain else None
    absent = ended or _reason(errors) or outcome.failure or "the driver finds no device"
    return Device(driver, 1, (), {"driver": driver}, absent)


_BUILDS = {"cuda": "proc/driver/nvidia/version", "hip": "sys/module/amdgpu/version"}


def driver_build(driver: str, root: Path = Path("/")) -> dict[str, str]:
    """Return `{"driver_build": VERSION}`, with the version of the GPU driver's kernel module.

    The version is part of cache keys, because another version of the driver may compile PTX to other code.
    The result is empty if the version is unknown."""
    if driver not in _BUILDS:
        return {}
    try:
        lines = (root / _BUILDS[driver]).read_text(errors="replace").splitlines()
    except OSError:
        return {}
    return {"driver_build": lines[0].strip()} if lines else {}


def parse(text: str) -> tuple[str | None, dict[str, Any]]:
    """Return the URI and the identifying fields of the first device in `text`.

    `text` is the output of `--dump_devices`. The fields, such as the name and the driver's version, are part of cache
    keys. The result is `(None, {})` if `text` has no device."""
    begin = re.search(r"--device=(\S+)", text)
    if begin is None:
        return None, {}
    rest = text[begin.end() :]
    end = re.search(r"--device=", rest)
    block = rest[: end.start()] if end else rest
    fields = dict(re.findall(r"^(\w+): (.*)$", block, re.MULTILINE))
    known: dict[str, Any] = {name: fields[name] for name in _IDENTITY if name in fields}
    # Other drivers have other fields; the identity of their devices is the complete description.
    return begin[1], known or {"said": digest_of(block.encode())}


def architecture(text: str) -> str:
    """Return the architecture of the first GPU in `text`, the output of `--dump_devices`.

    Examples are `gfx942` for AMD and `sm_90` for NVIDIA. The result is empty if no architecture is printed."""
    first = re.split(r"--device=", text, maxsplit=2)[1]
    if name := re.search(r"^- gpu-arch-name: (gfx\w+)", first, re.MULTILINE):
        return name[1]
    capability = re.search(r"^- gpu-compute-capability: (\d+)\.(\d+)", first, re.MULTILINE)
    return f"sm_{capability[1]}{capability[2]}" if capability else ""


def _reason(errors: str) -> str | None:
    match = re.search(r"\.c(?:c|pp)?:\d+: ([^\n]+)", errors)  # the message after its source location
    lines = errors.splitlines()
    return (match[1] if match else lines[-1] if lines else "")[:200].rstrip(": ") or None
