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
    """Which measurements to repeat: `yes` (all), `noisy`, or a number of days (those that are older)."""
    retry: bool = False
    noisy: float | None = None
    """The uncertainty above which a row is noisy: half the width of the median's interval / the median.

    None means the value in the spec's sweep."""
    limits: Limits = field(default_factory=Limits)
