"""How a process ended."""

from __future__ import annotations

import signal
from dataclasses import dataclass

ILLEGAL_INSTRUCTION = "it has an instruction that this CPU does not have"


@dataclass(frozen=True, slots=True)
class Outcome:
    """`code` is negative for a signal; `peak_bytes` is the largest resident size of it and its children; `waited_s` how
    long the thread that waited longest had no CPU because others ran there: None where nobody asked, or the kernel does
    not tell."""

    code: int
    timed_out: bool
    wall_s: float
    cpu_s: float
    peak_bytes: int
    waited_s: float | None = None

    @property
    def failure(self) -> str | None:
        """In words, None when it went well."""
        if self.timed_out:
            return f"took longer than {self.wall_s:.0f} s"
        if self.code < 0:
            if self.code == -signal.SIGILL:
                return f"died by SIGILL: {ILLEGAL_INSTRUCTION}"
            known = -self.code in set(signal.Signals)
            return f"died by {signal.Signals(-self.code).name if known else f'signal {-self.code}'}"
        return f"exit code {self.code}" if self.code else None

    @property
    def repeatable(self) -> bool:
        """Not SIGKILL that is not ours: it comes from outside (out of memory, an impatient person), and the next time
        may go well."""
        return self.timed_out or self.code != -9
