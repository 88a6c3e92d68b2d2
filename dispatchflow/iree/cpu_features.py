"""Choose the CPU name and the CPU features for which code is compiled on this machine.

The compiler's output shows which features a CPU's name implies, and which features the machine has."""

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
"""A dict from an architecture to the names of generic CPUs, best first.

A virtual machine may hide features of its CPU. Code is then compiled for the first of these names whose features the
machine has. The names for x86-64 are the levels of its psABI."""

_NEVER_SELECTED = frozenset(
    (
        *("cldemote", "clflushopt", "clwb", "clzero", "enqcmd", "fsgsbase", "hreset", "invpcid", "kl", "lwp"),
        *("movdir64b", "movdiri", "mwaitx", "pconfig", "pku", "ptwrite", "rand", "rdpid", "rdpru", "rdrnd", "rdseed"),
        *("rtm", "serialize", "sgx", "shstk", "tsxldtrk", "uintr", "usermsr", "waitpkg", "wbnoinvd", "widekl"),
        *("xsave", "xsavec", "xsaveopt", "xsaves"),
    )
)
"""CPU features whose instructions LLVM emits only for explicit intrinsics, which no IREE module calls.

Most virtual machines hide some of these features. Code that is compiled for the CPU's name runs there nevertheless.
`rand` is a feature of AArch64; the others are features of x86-64."""


@dataclass(frozen=True, slots=True)
class HostCpu:
    """The CPU name and the features (`+avx,+avx2`) that are passed to the compiler for `llvm-cpu`."""

    name: str
    features: str
    named: str = ""
    """The compiler's name for this CPU, if `name` is a generic substitute; otherwise empty.

    The substitute, such as `x86-64-v3`, is used if the machine hides features that the compiler's name implies."""
    hidden: str = ""
    """The features, such as `avx512f,gfni`, that `named` implies but that the machine does not offer."""


@dataclass(frozen=True, slots=True)
class PrintedCpu:
    """A CPU as the compiler printed it: name, architecture, and signed features such as `+avx`."""

    name: str
    # For `host`: first the features that the CPU's name implies, with `+`; then the machine's, with `+` or `-`.
    features: tuple[str, ...]
    architecture: str

    @property
    def _signs(self) -> dict[str, str]:
        # The last sign of a feature counts.
        return {feature[1:]: feature[0] for feature in self.features}

    @property
    def present(self) -> tuple[str, ...]:
        """The features of the machine, each once and with a `+`, such as `+avx`."""
        return tuple(f"+{name}" for name, sign in self._signs.items() if sign == "+")

    @property
    def hidden(self) -> tuple[str, ...]:
        """The features, such as `avx512f`, that the CPU's name implies, but that the machine does not offer.

        Features that compiled code never needs are left out."""
        ever = set(self.features)
        return tuple(name for name, sign in self._signs.items() if sign == "-" and f"+{name}" in ever and matters(name))


def matters(feature: str) -> bool:
    """Return whether compiled code may need `feature`, such as `avx512f`."""
    return feature not in _NEVER_SELECTED


def parse(text: str) -> PrintedCpu | None:
    """Parse the CPU that is named in a module's text.

    The compiler prints this text after the phase `executable-targets`. Returns None if the module names no CPU."""
    if (cpu := _CPU.search(text)) is None:
        return None
    triple = _TRIPLE.search(text, cpu.end())
    return PrintedCpu(cpu[1], tuple(filter(None, cpu[2].split(","))), triple[1] if triple else "")


def resolve(host: PrintedCpu, implied: Callable[[str], Sequence[str]]) -> HostCpu | None:
    """Return the CPU for which code is compiled on this machine; None if no CPU fits.

    If a virtual machine hides important features of `host`, the returned CPU is generic, such as `x86-64-v3`.
    `implied(name)` returns the features that a CPU's name implies."""
    # A flag such as `-avx512f` would not remove a feature that the name implies. IREE uses the feature anyway: 3.13
    # chooses tiles of 512 bits, and then the compile fails or the code dies by SIGILL.
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
    """Return the value of the last `--iree-llvmcpu-target-cpu` among the flags.

    Returns None if no flag names a CPU."""
    return next((flag.removeprefix(CPU_FLAG) for flag in reversed(flags) if flag.startswith(CPU_FLAG)), None)
