"""The registry of operations: every file in this folder that does not begin with `_` holds one."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from dispatchflow.errors import DispatchflowError
from dispatchflow.operations._base import Loop, Operand, Operation, Option
from dispatchflow.registry import HINT, members


def options_of(operations: Iterable[type[Operation]]) -> dict[str, Option]:
    """All words, each with what the last of these operations takes for it.

    Raises:
        DispatchflowError: a word is of numbers in one operation and of words in another, or of neither: it is one
            column. Dims are of numbers.
    """
    found: dict[str, Option] = {}
    files = {operation: sys.modules[operation.__module__].__file__ for operation in operations}
    kinds = {(dim, "numbers"): file for operation, file in files.items() for dim in operation.dims}
    for operation, file in files.items():
        for word, option in operation.options.items():
            numbers = isinstance(option.values, range)
            if not numbers and not all(isinstance(value, str) for value in option.values):
                facts = {"file": file, "says": ", ".join(map(repr, option.values))}
                raise DispatchflowError(f"the values of option '{word}' are neither a range nor words", facts, HINT)
            kinds[word, "numbers" if numbers else "words"] = file
            if (word, "numbers") in kinds and (word, "words") in kinds:
                facts = {kind: kinds[word, kind] for kind in ("numbers", "words")}
                hint = f"It is one column: give one of them another name. {HINT}"
                raise DispatchflowError(f"'{word}' is of numbers in one operation, of words in another", facts, hint)
            found[word] = option
    return found


OPERATIONS: dict[str, type[Operation]] = {cls.name: cls for cls in members(__name__, Operation, "name")}

DIMS = tuple(dict.fromkeys(dim for operation in OPERATIONS.values() for dim in operation.dims))
"""Of all operations: variables and columns."""

OPTIONS = options_of(OPERATIONS.values())
"""The same; a word is of one kind in all operations that have it, numbers or words."""

__all__ = ["DIMS", "OPERATIONS", "OPTIONS", "Loop", "Operand", "Operation", "Option"]
