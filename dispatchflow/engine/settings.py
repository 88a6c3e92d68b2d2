"""Define the settings that apply to all cases of an invocation."""

from __future__ import annotations

from dataclasses import dataclass, field

from dispatchflow.timing.protocols import Protocol
from dispatchflow.tools.limits import Limits

VERIFY_MODES = ("on", "off", "warn")


@dataclass(frozen=True, slots=True)
class Settings:
    protocol: Protocol
    verify: str = "on"
    remeasure: str | int | None = None
    """Which measurements to repeat: `yes` (all), `noisy` (noisy ones), or an age in days (older ones)."""
    retry: bool = False
    noisy: float | None = None
    """A row is noisy if its uncertainty is above this number. None means the value in the spec's sweep.

    The uncertainty is half the width of the median's interval, divided by the median."""
    limits: Limits = field(default_factory=Limits)
