"""The registry of tuning families. A new file in this folder adds a family."""

from __future__ import annotations

from dispatchflow.registry import members
from dispatchflow.tunings.api import GIVEN, Lowering, Tuning, TuningFile

TUNINGS: dict[str, type[Tuning]] = {cls.family: cls for cls in members(__name__, Tuning)}

__all__ = ["GIVEN", "TUNINGS", "Lowering", "Tuning", "TuningFile"]
