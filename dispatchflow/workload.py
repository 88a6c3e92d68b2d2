"""The base class of workloads. A case runs a workload: an operation or a user's module."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import ClassVar

ENTRY = "main"
"""The entry function of every generated module.

The name is constant, because it is part of the executables' names and therefore of the code digest."""


class Kind(StrEnum):
    """The kinds of workloads: dispatchflow's operations, and files of two formats.

    Each library computes one kind: numpy and PyTorch compute operations, and onnxruntime computes ONNX files."""

    OPERATIONS = "operations"
    ONNX = "ONNX files"
    MLIR = "MLIR files"


@dataclass(frozen=True)
class Workload(ABC):
    """The base class of `Operation` and `Module`.

    The MLIR code of an `Operation` is generated. A `Module` stands for a function in a user's own file."""

    name: ClassVar[str]
    """The workload's word in specs, which is also the value of the column `operation` in result rows."""
    dims: ClassVar[tuple[str, ...]]
    """The names of the dimensions, in the order in which `label` has their sizes."""

    @property
    def kind(self) -> Kind:
        return Kind.OPERATIONS

    @property
    @abstractmethod
    def recipes(self) -> tuple[str, ...]:
        """The ways to make inputs for verification, such as `random`.

        Measurements use the inputs that are made in the last of these ways."""

    @property
    @abstractmethod
    def sizes(self) -> tuple[int, ...]:
        """The sizes of `dims`, in the same order."""

    @property
    @abstractmethod
    def label(self) -> str:
        """The part of a case's name between operation and tuning.

        It has the sizes, types and layouts of an operation, or the file and the function of a module."""

    @cached_property
    def shape_name(self) -> str:
        """The workload's name and label, such as `matmul_64x64x64_f32t_f32t_f32t`.

        Names of cases begin with this text."""
        return f"{self.name}_{self.label}"

    @property
    def function(self) -> str:
        """The name of the function that a case calls in its module."""
        return ENTRY

    @property
    def compared(self) -> bool:
        """True if the results can be compared with expected results."""
        return True

    @property
    def packages(self) -> tuple[str, ...]:
        """The Python packages that the workload needs in addition to dispatchflow's dependencies."""
        return ()

    @property
    def element_types(self) -> str | None:
        """The element types, such as `f16,f16->f32`. None for a user's module."""
        return None

    @property
    def layout(self) -> str | None:
        return None

    @abstractmethod
    def flops(self) -> int | None:
        """Return the number of arithmetic operations of one call, or None if it is unknown.

        A multiply-add counts as two operations."""

    @abstractmethod
    def traffic_bytes(self) -> int | None:
        """Return the number of bytes that one call reads and writes, or None if it is unknown.

        Each operand counts as read once, and each result as written once."""
