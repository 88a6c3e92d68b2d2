"""What is compiled for, and the device that runs it: one table. A new target is one entry."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dispatchflow.iree.cpu_features import CPU_FLAG, HostCpu
from dispatchflow.iree.release import Release
from dispatchflow.keys import Key, key_of

LOCAL = "local"


@dataclass(frozen=True, slots=True)
class Gpu:
    """What a workgroup may have, and the matrix instructions that multiply for a subgroup, by IREE's names."""

    shared_memory_bytes: int
    subgroup_size: int
    mma: tuple[str, ...]
    threads: int = 1024


@dataclass(frozen=True, slots=True)
class Target:
    name: str
    backend: str
    flags: tuple[str, ...]
    driver: str = LOCAL
    """The runtime's driver: this machine's CPU, or `vulkan`, `cuda`, `hip`, `metal`, which enumerate devices."""
    needs_host_cpu: bool = False
    """Flags are completed with the machine's CPU name and features; never `host`, which hides what it means."""
    runtime_is_code: bool = False
    """Executables call into the runtime: its library's digest belongs to the device's identity."""
    gpu: Gpu | None = None
    """None where nothing is known of its limits."""
    since: tuple[int, int] = (0, 0)
    """The first release that knows it."""

    @property
    def has_threads(self) -> bool:
        """Whether the number of threads is ours to choose."""
        return self.driver == LOCAL

    def inexpressible(self, syntax: Release) -> str | None:
        """Why this release has no word for it, None when it has. The reason of a skip."""
        if syntax.release < self.since:
            return f"{syntax} does not know {self.name}; {_spelt(self.since)} is the first that does"
        return None

    def resolved_flags(self, host: HostCpu, syntax: Release) -> tuple[str, ...]:
        flags = tuple(map(syntax.flag, self.flags))
        if not self.needs_host_cpu:
            return flags
        return (
            *flags,
            f"{CPU_FLAG}{host.name}",
            f"--iree-llvmcpu-target-cpu-features={host.features}",
        )

    def not_on(self, architecture: str) -> str | None:
        """Why a GPU of this architecture does not run its code, None where it does or nothing is known. A CUDA driver
        compiles PTX for its own card, which may be a later one; AMD's code is of one architecture."""
        own = self.name.partition("-")[2]
        if not architecture or self.driver not in ("cuda", "hip"):
            return None
        number = re.compile(r"sm_(\d+)")
        if (has := number.match(architecture)) and (wants := number.match(own)):
            return None if int(has[1]) >= int(wants[1]) else f"the first GPU is {architecture}, before {own}"
        return None if architecture == own else f"the first GPU is {architecture}"

    def device(self, threads: int) -> str:
        """The local device for so many threads. One thread needs no task system, which costs tens of µs a call."""
        return "local-sync" if threads == 1 else "local-task"


def _spelt(release: tuple[int, int]) -> str:
    return ".".join(map(str, release))


@dataclass(frozen=True)
class Device:
    """What runs a case: `identity` enters keys, `cpus` are the processors that its workers are pinned to (none: not
    pinned). `absent` says why there is none here: then nothing can be run."""

    uri: str
    threads: int
    cpus: tuple[int, ...]
    identity: dict[str, Any]
    absent: str | None = None
    architecture: str = ""
    """Of a GPU, `sm_90` or `gfx942`, where its driver says."""

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
_LLVM_CPU = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-debug-symbols=false",
    *_COMMON,
)


def _cpu(name: str) -> Target:
    return Target(f"llvm-cpu-{name}", "llvm-cpu", (*_LLVM_CPU, f"{CPU_FLAG}{name}"))


_NV = tuple(f"NV_MMA_SYNC_{types}" for types in ("F32_16x8x16_F16", "F16_16x8x16_F16", "F32_16x8x16_BF16"))
_NV_WMMA = tuple(f"NV_WMMA_{types}" for types in ("F32_16x16x16_F16", "F16_16x16x16_F16"))
_NV_F8 = tuple(f"NV_MMA_SYNC_F32_16x8x32_{types}" for types in ("F8E4M3FN", "F8E5M2"))
_MFMA = ("MFMA_F32_16x16x16_F16", "MFMA_F32_32x32x8_F16", "MFMA_F32_16x16x4_F32", "MFMA_F64_16x16x4_F64")
_CDNA2 = ("MFMA_F32_16x16x8_BF16", "MFMA_F32_32x32x4_BF16", "MFMA_I32_16x16x16_I8", "MFMA_I32_32x32x8_I8")
_CDNA3 = ("MFMA_F32_16x16x16_BF16", "MFMA_F32_32x32x8_BF16", "MFMA_I32_16x16x32_I8", "MFMA_I32_32x32x16_I8")
_RDNA = ("F32_16x16x16_F16", "F16_16x16x16_F16", "F32_16x16x16_BF16", "BF16_16x16x16_BF16", "I32_16x16x16_I8")
_RDNA4_F8 = ("F32_16x16x16_F8E4M3FN", "F32_16x16x16_F8E5M2")

# Shared memory of a workgroup: CUDA C++ Programming Guide, table of technical specifications (163 KiB for 8.0, 99 KiB
# for 8.6, 8.9 and 12.0); LDS of AMD's ISA manuals, 64 KiB.
# Instructions: as IREE 3.13 lists them in `iree_codegen.target_info`; without AMD's blocked ones
# (`…x4B`) and mixed f8.
_GPUS = {
    "sm_80": Gpu(166912, 32, (*_NV, *_NV_WMMA)),
    "sm_86": Gpu(101376, 32, (*_NV, *_NV_WMMA)),
    "sm_89": Gpu(101376, 32, (*_NV, *_NV_F8, *_NV_WMMA)),
    "sm_120": Gpu(101376, 32, (*_NV, *_NV_F8, *_NV_WMMA)),
    "gfx90a": Gpu(65536, 64, (*_MFMA, *_CDNA2)),
    "gfx942": Gpu(65536, 64, (*_MFMA, *_CDNA3)),
    "gfx1100": Gpu(65536, 32, tuple(f"WMMAR3_{types}" for types in _RDNA)),
    "gfx1201": Gpu(65536, 32, tuple(f"WMMAR4_{types}" for types in (*_RDNA, *_RDNA4_F8))),
}


# Before: "missing GPU target in #hal.executable.target", or no PTX that is new enough (3.1 to 3.13 were asked).
_SINCE = {"sm_89": (3, 12), "sm_120": (3, 13), "gfx1201": (3, 3)}


_DRIVERS = {"cuda": "cuda", "rocm": "hip"}


def _gpu(backend: str, architecture: str) -> Target:
    driver = _DRIVERS[backend]
    flags = (f"--iree-hal-target-device={driver}", f"--iree-{backend}-target={architecture}", *_COMMON)
    name, gpu, since = f"{backend}-{architecture}", _GPUS.get(architecture), _SINCE.get(architecture, (0, 0))
    return Target(name, backend, flags, driver, gpu=gpu, since=since)


def _spirv(driver: str) -> Target:
    flags = (f"--iree-hal-target-device={driver}", *_COMMON)
    return Target(driver, f"{driver}-spirv", flags, driver)


TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target("llvm-cpu", "llvm-cpu", _LLVM_CPU, needs_host_cpu=True),
        *(_cpu(level) for level in ("x86-64-v2", "x86-64-v3", "x86-64-v4")),
        Target(
            "vmvx",
            "vmvx",
            ("--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=vmvx", *_COMMON),
            runtime_is_code=True,
        ),
        _spirv("vulkan"),
        *(_gpu("cuda", architecture) for architecture in ("sm_80", "sm_86", "sm_89", "sm_120")),
        *(_gpu("rocm", architecture) for architecture in ("gfx90a", "gfx942", "gfx1100", "gfx1201")),
        _spirv("metal"),
    )
}

# Letters of a case's name; a number of threads is no part of a CPU's.
_OTHERS = re.compile(r"(llvm-cpu)-((?!.*-\d+t$)[a-z][a-z0-9.-]*)|(cuda)-(sm_\d+)|(rocm)-(gfx[0-9a-f]+)")


def named(name: str) -> Target | None:
    """The target of this name: one of the table, or any other CPU or GPU as the compiler calls it, which may not know
    such a one. None: it is no target's name."""
    if name in TARGETS or name in HINTS or (match := _OTHERS.fullmatch(name)) is None:
        return TARGETS.get(name)
    backend, architecture = filter(None, match.groups())
    return _cpu(architecture) if backend == "llvm-cpu" else _gpu(backend, architecture)


# What is no target, and what to write instead.
HINTS = {
    # Compiling for it fails: "missing GPU target in #hal.executable.target" (IREE 3.9 to 3.13).
    **dict.fromkeys(
        ("cuda-sm_90", "cuda-sm_90a"),
        "IREE does not know it. A Hopper card runs the code of cuda-sm_89: its driver compiles it.",
    ),
    # Keys would name a word that means another CPU on another machine.
    **dict.fromkeys(("llvm-cpu-host", "llvm-cpu-native"), "This machine's CPU is llvm-cpu."),
}
