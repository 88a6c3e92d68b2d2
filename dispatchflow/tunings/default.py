"""The compiler's own choice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from dispatchflow.tunings._base import Tuning


@dataclass(frozen=True, slots=True)
class Default(Tuning):
    family: ClassVar[str] = "default"

    @classmethod
    def expand(cls, parameters: Mapping[str, Any]) -> tuple[Tuning, ...]:
        if parameters:
            raise ValueError("takes no parameters")
        return (cls(),)

    @property
    def name(self) -> str:
        return self.family
