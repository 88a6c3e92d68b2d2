"""The targets that code is compiled for, in one table (`TARGETS`), and the devices that run the code."""

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
    """A GPU's limits for one workgroup, its subgroup size, and IREE's names of its matrix instructions."""

    shared_memory_bytes: int
    subgroup_size: int
    mma: tuple[str, ...]
    threads: int = 1024
    """The largest number of threads in a workgroup."""


@dataclass(frozen=True, slots=True)
class Target:
    """A compiler backend with its flags, and the driver of IREE's runtime that runs the compiled code."""

    name: str
    backend: str
    flags: tuple[str, ...]
    driver: str = LOCAL
    """The driver of IREE's runtime: `LOCAL` for this CPU, or `vulkan`, `cuda`, `hip` or `metal`."""
    needs_host_cpu: bool = False
    """True if flags with this machine's CPU name and CPU features are added to `flags`."""
    runtime_is_code: bool = False
    """True if executables call code of IREE's runtime.

    If they do, the runtime's digest is one of the device's properties in cache keys."""
    gpu: Gpu | None = None
    """The limits of the GPU. None for a CPU, and for a GPU whose limits are unknown."""
    since: tuple[int, int] = (0, 0)
    """The first IREE release, (major, minor), that can compile for the target. (0, 0) means any release."""

    @property
    def has_threads(self) -> bool:
        """True if the number of threads can be chosen."""
        return self.driver == LOCAL

    def inexpressible(self, syntax: Release) -> str | None:
        """Return why the IREE release `syntax` cannot compile for this target. Returns None if it can."""
        if syntax.release < self.since:
            return f"{syntax} does not know {self.name}; {_spelt(self.since)} is the first that does"
        return None

    def resolved_flags(self, host: HostCpu, syntax: Release) -> tuple[str, ...]:
        """Return the target's compiler flags as the IREE release `syntax` spells them.

        If `needs_host_cpu` is true, flags with the name and features of `host` are added."""
        flags = tuple(map(syntax.flag, self.flags))
        if not self.needs_host_cpu:
            return flags
        return (
            *flags,
            f"{CPU_FLAG}{host.name}",
            f"--iree-llvmcpu-target-cpu-features={host.features}",
        )

    def not_on(self, architecture: str) -> str | None:
        """Return the reason not to run the target's code on a GPU of the given architecture.

        Returns None if there is no reason."""
        own = self.name.partition("-")[2]
        if own and self.driver == "vulkan":
            return f"{self.name} is only compiled: the driver does not report whether its GPU is {own}"
        if not architecture or self.driver not in ("cuda", "hip"):
            return None
        number = re.compile(r"sm_(\d+)")
        # CUDA code also runs on later architectures, AMD's code on one architecture only.
        if (has := number.match(architecture)) and (wants := number.match(own)):
            return None if int(has[1]) >= int(wants[1]) else f"the first GPU is {architecture}, before {own}"
        return None if architecture == own else f"the first GPU is {architecture}"

    def device(self, threads: int) -> str:
        """Return the CPU device for a number of threads: `local-sync` for one thread, otherwise `local-task`.

        One thread does not need the task system of `local-task`, which costs tens of µs per call."""
        return "local-sync" if threads == 1 else "local-task"


def _spelt(release: tuple[int, int]) -> str:
    return ".".join(map(str, release))


@dataclass(frozen=True)
class Device:
    """The hardware that computes a case, by running a compiled module or a library such as numpy."""

    uri: str
    threads: int
    cpus: tuple[int, ...]
    """The numbers of the CPUs to which the threads are pinned. Empty if the threads are not pinned."""
    identity: dict[str, Any]
    """The properties of the device that are part of cache keys."""
    absent: str | None = None
    """The reason why this machine has no such device; None if it has one."""
    architecture: str = ""
    """The architecture of a GPU, such as `sm_90` or `gfx942`. Empty if the driver does not report it."""

    @cached_property
    def digest(self) -> Key:
        return key_of("device", {"identity": self.identity, "threads": self.threads})


# Without these flags the output's bytes depend on names, paths and source lines (seen with IREE 3.13, llvm-cpu and
# vmvx), and f64 is demoted to f32.
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
# for 8.6, 8.9 and 12.0); for AMD the LDS, 64 KiB in its ISA manuals.
# Instructions: those of `iree_codegen.target_info` in IREE 3.13, without AMD's blocked ones (`…x4B`) and mixed f8.
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


# The first release that compiles for an architecture. Earlier releases fail ("missing GPU target in
# #hal.executable.target"), do not know the name, or emit too old PTX (3.1 to 3.13 were tried).
_SINCE = {"sm_89": (3, 12), "sm_120": (3, 13), "gfx1201": (3, 3), "rdna4": (3, 3), "ada": (3, 12)}


_DRIVERS = {"cuda": "cuda", "rocm": "hip"}


def _gpu(backend: str, architecture: str) -> Target:
    driver = _DRIVERS[backend]
    flags = (f"--iree-hal-target-device={driver}", f"--iree-{backend}-target={architecture}", *_COMMON)
    name, gpu, since = f"{backend}-{architecture}", _GPUS.get(architecture), _SINCE.get(architecture, (0, 0))
    return Target(name, backend, flags, driver, gpu=gpu, since=since)


def _spirv(driver: str) -> Target:
    flags = (f"--iree-hal-target-device={driver}", *_COMMON)
    return Target(driver, f"{driver}-spirv", flags, driver)


def _vulkan(architecture: str) -> Target:
    flags = ("--iree-hal-target-device=vulkan", f"--iree-vulkan-target={architecture}", *_COMMON)
    name, since = f"vulkan-{architecture}", _SINCE.get(architecture, (0, 0))
    return Target(name, "vulkan-spirv", flags, "vulkan", since=since)


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
        *map(_vulkan, ("rdna2", "rdna3", "rdna4", "turing", "ampere", "ada", "adreno", "valhall")),
        *(_gpu("cuda", architecture) for architecture in ("sm_80", "sm_86", "sm_89", "sm_120")),
        *(_gpu("rocm", architecture) for architecture in ("gfx90a", "gfx942", "gfx1100", "gfx1201")),
        _spirv("metal"),
    )
}

# Only characters that a case's name may have. A CPU's name may not end like a number of threads, `-4t`.
_OTHERS = re.compile(
    r"(llvm-cpu)-((?!.*-\d+t$)[a-z][a-z0-9.-]*)|(cuda)-(sm_\d+)|(rocm)-(gfx[0-9a-f]+)|(vulkan)-([a-z]\w*)"
)


def named(name: str) -> Target | None:
    """Return the target with this name. Returns None if there is no such target.

    The name may also combine a backend with a CPU or GPU that is not in `TARGETS`: for example, `cuda-sm_75`. The
    function does not check whether the compiler knows the CPU or GPU."""
    if name in TARGETS or name in HINTS or (match := _OTHERS.fullmatch(name)) is None:
        return TARGETS.get(name)
    backend, architecture = filter(None, match.groups())
    if backend == "vulkan":
        return _vulkan(architecture)
    return _cpu(architecture) if backend == "llvm-cpu" else _gpu(backend, architecture)


# Names that are not targets, and what to write instead.
HINTS = {
    # Compiling for it fails: "missing GPU target in #hal.executable.target" (IREE 3.9 to 3.13).
    **dict.fromkeys(
        ("cuda-sm_90", "cuda-sm_90a"),
        "IREE does not know this architecture. Use cuda-sm_89: the driver of a Hopper card compiles its code.",
    ),
    # The word would be part of cache keys, although it means another CPU on another machine.
    **dict.fromkeys(("llvm-cpu-host", "llvm-cpu-native"), "This machine's CPU is llvm-cpu."),
}
