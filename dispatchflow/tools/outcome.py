"""The outcome of a process."""

from __future__ import annotations

import signal
from dataclasses import dataclass

ILLEGAL_INSTRUCTION = "it has an instruction that this CPU does not have"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a process that was started."""

    code: int
    """The exit code; negative for a signal."""
    timed_out: bool
    wall_s: float
    cpu_s: float
    peak_bytes: int
    """The largest resident size of the process and its children."""
    waited_s: float | None = None
    """The longest time that one of its threads waited for a CPU because other processes ran there.

    None if the time was not requested, or if the kernel does not report it."""

    @property
    def failure(self) -> str | None:
        """The reason for a failure; None for success."""
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
        """Whether a failure would repeat itself.

        A SIGKILL without an exceeded time limit comes from outside (out of memory, an impatient person), so the next
        run may succeed."""
        return self.timed_out or self.code != -9
