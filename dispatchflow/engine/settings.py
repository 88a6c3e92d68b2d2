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
    """Which measurements to repeat: `yes` (all), `noisy`, or those older than a number of days."""
    retry: bool = False
    noisy: float | None = None
    """The relative half-width of a median's interval above which a row is noisy.

    None means the sweep's value."""
    limits: Limits = field(default_factory=Limits)
