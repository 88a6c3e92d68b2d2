"""What is compiled for, and the device that runs it: one table. A new target is one entry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from dispatchflow.keys import Key, key_of
from dispatchflow.types import ElementType


@dataclass(frozen=True, slots=True)
class HostCpu:
    """The compiler's own word for this machine's CPU: its name and the features it has (`+avx,+avx2`)."""

    name: str
    features: str


@dataclass(frozen=True, slots=True)
class Target:
    name: str
    backend: str
    flags: tuple[str, ...]
    needs_host_cpu: bool = False
    """Flags are completed with the machine's CPU name and features; never `host`, which hides what it means."""
    runtime_is_code: bool = False
    """Executables call into the runtime: its library's digest belongs to the device's identity."""
    lacks: Mapping[ElementType, str] = field(default_factory=dict, hash=False)
    """Element types that the backend cannot compile, each with the reason of the skip."""

    def resolved_flags(self, host: HostCpu) -> tuple[str, ...]:
        if not self.needs_host_cpu:
            return self.flags
        return (
            *self.flags,
            f"--iree-llvmcpu-target-cpu={host.name}",
            f"--iree-llvmcpu-target-cpu-features={host.features}",
        )

    def device(self, threads: int) -> str:
        """The runtime's device for so many threads. One thread needs no task system, which costs tens of µs a call."""
        return "local-sync" if threads == 1 else "local-task"


@dataclass(frozen=True)
class Device:
    """What runs a case: `identity` enters keys, `cpus` are the processors that its workers are pinned to."""

    uri: str
    threads: int
    cpus: tuple[int, ...]
    identity: dict[str, Any]

    @cached_property
    def digest(self) -> Key:
        """Of what enters keys, to look them up by."""
        return key_of("device", {"identity": self.identity, "threads": self.threads})


# Without these three the bytes depend on names, paths and source lines (facts: IREE 3.13, llvm-cpu and vmvx);
# f64 is demoted to f32 unless told otherwise.
_COMMON = (
    "--iree-vm-bytecode-module-strip-source-map=true",
    "--iree-input-demote-f64-to-f32=false",
    "--mlir-disable-threading",
)
_NO_F16 = "vmvx has no f16 arithmetic (IREE 3.13: 'arith.extf' and f16 constants are refused)"

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target(
            "llvm-cpu",
            backend="llvm-cpu",
            flags=(
                "--iree-hal-target-device=local",
                "--iree-hal-local-target-device-backends=llvm-cpu",
                "--iree-llvmcpu-debug-symbols=false",
                *_COMMON,
            ),
            needs_host_cpu=True,
        ),
        Target(
            "vmvx",
            backend="vmvx",
            flags=("--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=vmvx", *_COMMON),
            runtime_is_code=True,
            lacks={ElementType.F16: _NO_F16},
        ),
    )
}
