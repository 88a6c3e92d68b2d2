"""The registry of operations: every file in this folder that does not begin with `_` holds one."""

from __future__ import annotations

from dispatchflow.operations._base import Operand, Operation, Unsupported
from dispatchflow.registry import members

OPERATIONS: dict[str, type[Operation]] = {cls.name: cls for cls in members(__name__, Operation)}

__all__ = ["OPERATIONS", "Operand", "Operation", "Unsupported"]
