"""The registry of tuning families. A family is all tunings of one kind, such as `double_tiling`.

To add a family, add a file to this folder."""

from __future__ import annotations

from dispatchflow.registry import members
from dispatchflow.tunings.api import GIVEN, Lowering, Tuning, TuningFile

TUNINGS: dict[str, type[Tuning]] = {cls.family: cls for cls in members(__name__, Tuning)}

__all__ = ["GIVEN", "TUNINGS", "Lowering", "Tuning", "TuningFile"]
