"""Get the flops and memory traffic of a case's computation, and check that a row can store them.

The computation is a workload: an operation or a user's module."""

from __future__ import annotations

from typing import Any

from dispatchflow.workload import Workload

_LIMIT = 2**63  # rows store them as int64


def value_or_error(program: Workload, amount: str) -> Any:
    """Call the method `amount` of `program`, and return its result or the exception that it raises.

    `amount` is `flops` or `traffic_bytes`.

    Raises:
        MemoryError, OSError: the machine caused the error, not the method.
    """
    try:
        return getattr(program, amount)()
    except (MemoryError, OSError):  # not the operation's fault
        raise
    except (Exception, SystemExit) as error:
        return error


def valid_amount(value: Any) -> int | None:
    """Return `value` if it is an integer that a row can store; None for anything else."""
    return value if type(value) is int and -_LIMIT <= value < _LIMIT else None  # neither a bool nor a numpy integer


def traffic_bytes(program: Workload) -> int | None:
    """Return the memory traffic of one call in bytes; None if it is unknown.

    The traffic counts as unknown if the program's method `traffic_bytes` returns a value that a row cannot store, or
    raises an exception other than MemoryError and OSError."""
    return valid_amount(value_or_error(program, "traffic_bytes"))
