"""The registry of operations: each file in this folder that does not begin with `_` has one."""

from __future__ import annotations

from dispatchflow.operations._checks import options_of, refuse_taken
from dispatchflow.operations.api import Loop, Operand, Operation, Option
from dispatchflow.registry import members

OPERATIONS: dict[str, type[Operation]] = {cls.name: cls for cls in members(__name__, Operation, "name")}

DIMS = tuple(dict.fromkeys(dim for operation in OPERATIONS.values() for dim in operation.dims))
"""The dims of all operations: variables and columns."""

OPTIONS = options_of(OPERATIONS.values())
"""The options of all operations: variables and columns.

If several operations have an option, its values are numbers in all of them, or words in all of them."""

__all__ = ["DIMS", "OPERATIONS", "OPTIONS", "Loop", "Operand", "Operation", "Option", "refuse_taken"]
