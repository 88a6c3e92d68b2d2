"""The CPU that this machine's code is compiled for, from what the compiler prints of `host` and of CPUs by name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_CPU = re.compile(r'cpu = "([^"]+)", cpu_features = "([^"]*)"')
CPU_FLAG = "--iree-llvmcpu-target-cpu="
_TRIPLE = re.compile(r'target_triple = "([^"-]+)')

LEVELS = {
    "x86_64": ("x86-64-v4", "x86-64-v3", "x86-64-v2", "x86-64"),
    "aarch64": ("generic",),
}
"""CPUs to compile for where the named one is not true of the machine, the best first: the levels of the x86-64 psABI.
AArch64 has no levels."""

_NEVER_SELECTED = frozenset(
    (
        *("cldemote", "clflushopt", "clwb", "clzero", "enqcmd", "fsgsbase", "hreset", "invpcid", "kl", "lwp"),
        *("movdir64b", "movdiri", "mwaitx", "pconfig", "pku", "ptwrite", "rand", "rdpid", "rdpru", "rdrnd", "rdseed"),
        *("rtm", "serialize", "sgx", "shstk", "tsxldtrk", "uintr", "usermsr", "waitpkg", "wbnoinvd", "widekl"),
        *("xsave", "xsavec", "xsaveopt", "xsaves"),
    )
)
"""Features whose instructions LLVM emits only for an intrinsic of their own, which no module of IREE calls: those of
operating systems, enclaves and random numbers (`rand` is AArch64's, all others are x86-64's). Most virtual machines
hide some of them, and the code of the named CPU runs there all the same. A feature that is not listed matters."""


@dataclass(frozen=True, slots=True)
class HostCpu:
    """The CPU and the features (`+avx,+avx2`) that `llvm-cpu` passes to the compiler."""

    name: str
    features: str
    named: str = ""
    """The compiler's name for this CPU, where it implies features that the machine hides; else empty."""
    hidden: str = ""
    """These features, `avx512f,gfni`."""


@dataclass(frozen=True, slots=True)
class PrintedCpu:
    """A CPU as the compiler prints it: its name, its features in their order, the first part of the target triple.

    Asked for `host`, the compiler lists the features of the CPU that it recognizes, all `+`, and then those that it
    finds on the machine, `+` or `-`. The last sign of a feature counts.
    """

    name: str
    features: tuple[str, ...]
    architecture: str

    @property
    def _signs(self) -> dict[str, str]:
        """Name → its last sign, in the order of the first ones."""
        return {feature[1:]: feature[0] for feature in self.features}

    @property
    def present(self) -> tuple[str, ...]:
        """`+avx`, …: what the last sign says is there, each once."""
        return tuple(f"+{name}" for name, sign in self._signs.items() if sign == "+")

    @property
    def hidden(self) -> tuple[str, ...]:
        """`avx512f`, …: what the name implies, code may use, and the machine does not have."""
        ever = set(self.features)
        return tuple(name for name, sign in self._signs.items() if sign == "-" and f"+{name}" in ever and matters(name))


def matters(feature: str) -> bool:
    """Whether compiled code may need a feature (`avx512f`, no sign)."""
    return feature not in _NEVER_SELECTED


def parse(text: str) -> PrintedCpu | None:
    """The CPU in a module that was compiled to executable targets; None where there is none."""
    if (cpu := _CPU.search(text)) is None:
        return None
    triple = _TRIPLE.search(text, cpu.end())
    return PrintedCpu(cpu[1], tuple(filter(None, cpu[2].split(","))), triple[1] if triple else "")


def resolve(host: PrintedCpu, implied: Callable[[str], Sequence[str]]) -> HostCpu | None:
    """The CPU to pass for this machine. `implied`: the features of a CPU by name, asked only where it is needed.

    The compiler's own name is passed if everything that it implies and that matters is here. Else the highest level
    that is here in full, with the machine's own features: IREE takes `+avx512f` in the features of the named CPU at
    its word, whatever follows (3.13: it chooses tiles of 512 bits and fails, or the code dies by SIGILL), so `-`
    features are no cure. None: not even the lowest level is here, or the architecture has no levels.
    """
    if not host.hidden:
        return HostCpu(host.name, ",".join(host.present))
    present, of_name, times = set(host.present), set(implied(host.name)), Counter(host.features)
    for level in LEVELS.get(host.architecture, ()):
        own = set(implied(level))
        if own <= present:
            # A feature that is printed once stands there since the name implies it: the machine was not asked
            # (AArch64 has many such). The level's own are part of its name.
            true = [f for f in host.present if f in own or f not in of_name or times[f] > 1]
            return HostCpu(level, ",".join(true), host.name, ",".join(host.hidden))
    return None


def compiled_for(flags: Sequence[str]) -> str | None:
    """The CPU that these flags of the compiler name; the last one counts. None: they name no CPU."""
    return next((flag.removeprefix(CPU_FLAG) for flag in reversed(flags) if flag.startswith(CPU_FLAG)), None)
