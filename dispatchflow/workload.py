"""The base of what a case runs: an operation or a user's module."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import ClassVar

ENTRY = "main"
"""The entry function of every generated module.

It is the same for all, because the name reaches the executables' names, and with these the code digest."""


class Kind(StrEnum):
    """The kinds of workloads; a library computes one of them."""

    OPERATIONS = "operations"
    ONNX = "ONNX files"
    MLIR = "MLIR files"


@dataclass(frozen=True)
class Workload(ABC):
    """The base of what a case runs: an `Operation`, whose module is generated, or a user's own `Module`."""

    name: ClassVar[str]
    """The spec's word and the row's `operation`."""
    dims: ClassVar[tuple[str, ...]]
    """The names of the dimensions, in the order of the label."""

    @property
    def kind(self) -> Kind:
        return Kind.OPERATIONS

    @property
    @abstractmethod
    def recipes(self) -> tuple[str, ...]:
        """The recipes that it is verified with; the last one is also measured."""

    @property
    @abstractmethod
    def sizes(self) -> tuple[int, ...]:
        """The sizes of `dims`, in their order."""

    @property
    @abstractmethod
    def label(self) -> str:
        """The part of a case's name after `name`, for people."""

    @cached_property
    def shape_name(self) -> str:
        """The common name of cases that compute the same: operation, dims, types, layouts; or file, function."""
        return f"{self.name}_{self.label}"

    @property
    def function(self) -> str:
        """The function that is called in the module."""
        return ENTRY

    @property
    def compared(self) -> bool:
        """Whether its results can be compared with expected ones."""
        return True

    @property
    def packages(self) -> tuple[str, ...]:
        """The Python packages that it needs besides dispatchflow's own."""
        return ()

    @property
    def element_types(self) -> str | None:
        """Element types, `f16,f16->f32`; None if only the module has them."""
        return None

    @property
    def layout(self) -> str | None:
        return None

    @abstractmethod
    def flops(self) -> int | None:
        """Return the arithmetic operations of one call, a multiply-add as two; None if unknown."""

    @abstractmethod
    def traffic_bytes(self) -> int | None:
        """Return the bytes of one call if every operand is read once and every result written once."""
