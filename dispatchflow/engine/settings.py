"""Settings that apply to all cases of an invocation."""

from __future__ import annotations

from dataclasses import dataclass, field

from dispatchflow.timing.protocols import Protocol
from dispatchflow.tools.limits import Limits

VERIFY_MODES = ("on", "off", "warn")


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one invocation."""

    protocol: Protocol
    verify: str = "on"
    remeasure: str | int | None = None
    """Which measurements to repeat: `yes` (all), `noisy`, or those older than a number of days."""
    retry: bool = False
    noisy: float | None = None
    """The half-width, relative to the median, above which a row is noisy; None for the sweep's value."""
    limits: Limits = field(default_factory=Limits)
