"""Check the names and values of the dims and options of all operations.

A dim is the name of a size, such as `m`. Each dim and option is a result column and a command-line variable."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NoReturn

from dispatchflow.errors import DispatchflowError
from dispatchflow.mlir.types import Signature
from dispatchflow.operations.api import Operation, Option
from dispatchflow.registry import HINT


def options_of(operations: Iterable[type[Operation]]) -> dict[str, Option]:
    """Check the dims and options of all operations, and return all options by name.

    If several operations have an option with the same name, the option of the last operation is returned.

    Raises:
        DispatchflowError: an attribute has a wrong type, a name or value cannot be written in a spec, an operation
            uses a name twice, or a name's values are numbers in one operation and words in another."""
    operations = tuple(operations)
    for operation in operations:
        _require_tables(operation)
        _require_words(operation)
    found: dict[str, Option] = {}
    kinds = {(dim, "numbers"): _file(operation) for operation in operations for dim in operation.dims}
    for operation in operations:
        for word, option in operation.options.items():
            kinds[word, "numbers" if isinstance(option.values, range) else "words"] = _file(operation)
            if (word, "numbers") in kinds and (word, "words") in kinds:
                facts = {kind: kinds[word, kind] for kind in ("numbers", "words")}
                hint = f"It is one column: give one of them another name. {HINT}"
                raise DispatchflowError(f"'{word}' has numbers in one operation and words in another", facts, hint)
            found[word] = option
    return found


_TABLES: dict[str, tuple[type, type, str]] = {
    "dims": (tuple, str, "a tuple of words"),
    "layouts": (tuple, str, "a tuple of words"),
    "signatures": (Mapping, Signature, "words, each with a signature(…)"),
    "options": (Mapping, Option, "words, each with an Option(…)"),
}


def _require_tables(operation: type[Operation]) -> None:
    for name, (kind, member, what) in _TABLES.items():
        said: Any = getattr(operation, name)
        members = said.values() if isinstance(said, Mapping) else said
        whole = isinstance(said, kind) and all(isinstance(one, member) for one in members)
        if not whole or not (said or name == "options"):
            _refuse(operation, f"{name} of {operation.name} must be {what}", repr(said))


def _require_words(operation: type[Operation]) -> None:
    words = (*operation.dims, *operation.options)
    for word in words:
        if not (isinstance(word, str) and word.isascii() and word.isidentifier()):
            _refuse(operation, f"{word!r} is not a word of letters, digits and _", ", ".join(map(repr, words)))
        if words.count(word) > 1:
            _refuse(operation, f"'{word}' appears twice among dimensions and options", ", ".join(words))
    for word, option in operation.options.items():
        sayable = isinstance(option.values, tuple | list) and all(map(_sayable, option.values))
        if not option.values or not (sayable or isinstance(option.values, range)):
            what = "neither a range nor words of letters, digits, _, +, - and ."
            _refuse(operation, f"the values of option '{word}' are {what}", repr(option.values))


def refuse_taken(operations: Iterable[type[Operation]], taken: Collection[str], by: str) -> None:
    """Check that no dim or option of the operations has a name in `taken`.

    In the error message, `by` says what the name already is, such as `a column of every row`.

    Raises:
        DispatchflowError: a dim or an option has a name in `taken`."""
    for operation in operations:
        for word in (*operation.dims, *operation.options):
            if word in taken:
                hint = f"Give the dimension or option another name. {HINT}"
                raise DispatchflowError(f"'{word}' is {by}", {"file": _file(operation)}, hint)


def _sayable(value: object) -> bool:
    return isinstance(value, str) and value.isascii() and value.translate(_JOINS).isalnum()


_JOINS = str.maketrans("_+-.", "0000")


def _file(operation: type[Operation]) -> str | None:
    return sys.modules[operation.__module__].__file__


def _refuse(operation: type[Operation], problem: str, says: str) -> NoReturn:
    raise DispatchflowError(problem, {"file": _file(operation), "says": says}, HINT)
