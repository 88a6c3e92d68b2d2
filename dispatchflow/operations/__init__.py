"""The registry of operations.

Each file of this folder defines one operation, except `api.py` and files whose names begin with `_`."""

from __future__ import annotations

from dispatchflow.operations._checks import options_of, refuse_taken
from dispatchflow.operations.api import Loop, Operand, Operation, Option
from dispatchflow.registry import members

OPERATIONS: dict[str, type[Operation]] = {cls.name: cls for cls in members(__name__, Operation, "name")}

DIMS = tuple(dict.fromkeys(dim for operation in OPERATIONS.values() for dim in operation.dims))
"""The dims of all operations. A dim is the name of a size, such as `m`.

Each dim is a variable of the command line and a column of result rows."""

OPTIONS = options_of(OPERATIONS.values())
"""The options of all operations; each is a variable of the command line and a column of result rows.

If several operations have an option of the same name, the values of these options are either all numbers or all words.
"""

__all__ = ["DIMS", "OPERATIONS", "OPTIONS", "Loop", "Operand", "Operation", "Option", "refuse_taken"]
