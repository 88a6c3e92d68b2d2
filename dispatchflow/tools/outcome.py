"""The result of running a process."""

from __future__ import annotations

import signal
from dataclasses import dataclass

ILLEGAL_INSTRUCTION = "it has an instruction that this CPU does not have"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of running a process: its exit code, and the time and memory that it used."""

    code: int
    """The exit code. If a signal ended the process, the code is minus the signal's number, such as -9."""
    timed_out: bool
    wall_s: float
    cpu_s: float
    peak_bytes: int
    """The largest resident size that the process or any one of its children had, in bytes."""
    waited_s: float | None = None
    """The longest time, in s, that a thread waited for a CPU because other processes used the CPU.

    None if `Command.count_waits` was False, or if the time is unknown."""

    @property
    def failure(self) -> str | None:
        """The reason why the process failed. None if the process succeeded."""
        if self.timed_out:
            return f"took longer than {self.wall_s:{'.0f' if self.wall_s >= 10 else '.2g'}} s"
        if self.code < 0:
            if self.code == -signal.SIGILL:
                return f"died by SIGILL: {ILLEGAL_INSTRUCTION}"
            known = -self.code in set(signal.Signals)
            return f"died by {signal.Signals(-self.code).name if known else f'signal {-self.code}'}"
        return f"exit code {self.code}" if self.code else None

    @property
    def repeatable(self) -> bool:
        """True if a failure would probably happen again in the next run.

        False if a SIGKILL ended the process before its time limit. Such a signal comes from outside, for example from
        the kernel when memory is full."""
        return self.timed_out or self.code != -9
