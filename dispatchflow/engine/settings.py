"""What an invocation asks of all its cases alike."""

from __future__ import annotations

from dataclasses import dataclass, field

from dispatchflow.timing.protocols import Protocol
from dispatchflow.tools.limits import Limits

VERIFY_MODES = ("on", "off", "warn")


@dataclass(frozen=True, slots=True)
class Settings:
    """How this invocation runs its cases. `remeasure`: `yes`, `noisy`, or older than so many days. `noisy`: the
    half-width above which a row is called so; None for what the case's sweep says."""

    protocol: Protocol
    verify: str = "on"
    remeasure: str | int | None = None
    retry: bool = False
    noisy: float | None = None
    limits: Limits = field(default_factory=Limits)
