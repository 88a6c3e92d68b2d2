"""Choose the CPU name and features to compile for on this machine, from the compiler's output."""

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
"""Architecture → CPU names to try, best first, on a (virtual) machine that hides features of its CPU.

For x86-64 these are the levels of its psABI. AArch64 has no levels."""

_NEVER_SELECTED = frozenset(
    (
        *("cldemote", "clflushopt", "clwb", "clzero", "enqcmd", "fsgsbase", "hreset", "invpcid", "kl", "lwp"),
        *("movdir64b", "movdiri", "mwaitx", "pconfig", "pku", "ptwrite", "rand", "rdpid", "rdpru", "rdrnd", "rdseed"),
        *("rtm", "serialize", "sgx", "shstk", "tsxldtrk", "uintr", "usermsr", "waitpkg", "wbnoinvd", "widekl"),
        *("xsave", "xsavec", "xsaveopt", "xsaves"),
    )
)
"""Features whose instructions LLVM emits only for their own intrinsics, which no IREE module calls.

They serve operating systems, enclaves and random numbers (`rand` is AArch64's, all others are x86-64's). Most virtual
machines hide some of them, but code that is compiled for the CPU's name still runs there. Code may need any feature
that is not listed here."""


@dataclass(frozen=True, slots=True)
class HostCpu:
    """The CPU name and the features (`+avx,+avx2`) that are passed to the compiler for `llvm-cpu`."""

    name: str
    features: str
    named: str = ""
    """The compiler's name for this CPU, if `name` replaces it because of hidden features; else empty."""
    hidden: str = ""
    """The features that the machine hides, such as `avx512f,gfni`; empty if it hides none."""


@dataclass(frozen=True, slots=True)
class PrintedCpu:
    """A CPU that the compiler printed: its name, its features in order, the target triple's architecture.

    If the compiler was called for the CPU `host`, it first prints the features that the CPU's name implies, all with
    `+`. Then it prints the features that it looked for on the machine, with `+` or `-`. The last sign of a feature
    counts."""

    name: str
    features: tuple[str, ...]
    architecture: str

    @property
    def _signs(self) -> dict[str, str]:
        """Feature → its last sign, in the order of first occurrence."""
        return {feature[1:]: feature[0] for feature in self.features}

    @property
    def present(self) -> tuple[str, ...]:
        """The features that the machine has, `+avx`, …, each once."""
        return tuple(f"+{name}" for name, sign in self._signs.items() if sign == "+")

    @property
    def hidden(self) -> tuple[str, ...]:
        """The features (`avx512f`) that the name implies and code may need, but the machine hides."""
        ever = set(self.features)
        return tuple(name for name, sign in self._signs.items() if sign == "-" and f"+{name}" in ever and matters(name))


def matters(feature: str) -> bool:
    """Return whether compiled code may need a feature (`avx512f`, without a sign)."""
    return feature not in _NEVER_SELECTED


def parse(text: str) -> PrintedCpu | None:
    """Parse the CPU from a module after the phase `executable-targets`; None if it names no CPU."""
    if (cpu := _CPU.search(text)) is None:
        return None
    triple = _TRIPLE.search(text, cpu.end())
    return PrintedCpu(cpu[1], tuple(filter(None, cpu[2].split(","))), triple[1] if triple else "")


def resolve(host: PrintedCpu, implied: Callable[[str], Sequence[str]]) -> HostCpu | None:
    """Return the CPU to pass to the compiler on this machine, or None if no CPU in `LEVELS` fits.

    `host` is the CPU that the compiler found. If the machine has all features that the name of `host` implies and that
    code may need, the result has this name. Otherwise the result has the best name in `LEVELS` that implies only
    features of the machine, together with the machine's features. For an architecture without an entry in `LEVELS`,
    no name fits.

    `implied` returns the features that a CPU's name implies; it is called only if the name of `host` does not fit.

    A flag such as `-avx512f` would not remove a feature that the name implies. IREE uses the feature anyway: 3.13
    chooses tiles of 512 bits, and then the compile fails or the code dies by SIGILL.
    """
    if not host.hidden:
        return HostCpu(host.name, ",".join(host.present))
    present, of_name, times = set(host.present), set(implied(host.name)), Counter(host.features)
    for level in LEVELS.get(host.architecture, ()):
        own = set(implied(level))
        if own <= present:
            # A feature that is printed only once is implied by the name and not detected on the machine (AArch64 has
            # many of these). The level's own features need no detection: its name implies them.
            true = [f for f in host.present if f in own or f not in of_name or times[f] > 1]
            return HostCpu(level, ",".join(true), host.name, ",".join(host.hidden))
    return None


def compiled_for(flags: Sequence[str]) -> str | None:
    """Return the CPU of the last `--iree-llvmcpu-target-cpu` among the flags; None if there is none."""
    return next((flag.removeprefix(CPU_FLAG) for flag in reversed(flags) if flag.startswith(CPU_FLAG)), None)
