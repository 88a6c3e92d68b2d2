"""The tuning `default`: the compiler's own choice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dispatchflow.tunings.api import Tuning


@dataclass(frozen=True, slots=True)
class Default(Tuning):
    family: ClassVar[str] = "default"
