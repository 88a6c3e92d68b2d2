"""What a case runs, whoever wrote its module."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

ENTRY = "main"
"""The function of every module that is made here. One name for all: it reaches the executables' names, and so the code
digest."""


@dataclass(frozen=True)
class Workload(ABC):
    """What a case runs: an `Operation`, whose module is made here, or a user's own `Module`."""

    name: ClassVar[str]
    """The spec's word and the row's `operation`."""
    dims: ClassVar[tuple[str, ...]]
    """The names of the dimensions, in the order of the label."""

    @property
    @abstractmethod
    def recipes(self) -> tuple[str, ...]:
        """The sets of inputs that it is verified on; the last is the one that it is measured on."""

    @property
    @abstractmethod
    def sizes(self) -> tuple[int, ...]:
        """The sizes of `dims`, in their order."""

    @property
    @abstractmethod
    def label(self) -> str:
        """What stands in a case's name after `name`, for people."""

    @cached_property
    def shape_name(self) -> str:
        """What cases that compute the same thing share: operation, dims, types, layouts; or file and function."""
        return f"{self.name}_{self.label}"

    @property
    def function(self) -> str:
        """What is called in the module."""
        return ENTRY

    @property
    def compared(self) -> bool:
        """Whether there is something to compare its results with."""
        return True

    @property
    def element_types(self) -> str | None:
        """`f16,f16->f32`; None where only the module knows."""
        return None

    @property
    def layout(self) -> str | None:
        return None

    @abstractmethod
    def flops(self) -> int | None:
        """Arithmetic operations of one call; one multiply-add counts as two. None where nobody said."""

    @abstractmethod
    def traffic_bytes(self) -> int | None:
        """Bytes of one call when every operand is read once and every result written once."""
