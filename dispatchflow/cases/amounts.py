"""Call a workload's `flops` and `traffic_bytes`, and check that a row can store the values."""

from __future__ import annotations

from typing import Any

from dispatchflow.workload import Workload

_LIMIT = 2**63  # rows store them as int64


def value_or_error(program: Workload, amount: str) -> Any:
    """Return the result of `program.flops()` or `program.traffic_bytes()`, or the exception it raised.

    `amount` is the name of the method.

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
    """Return the memory traffic of one call in bytes; None if unknown or not an integer."""
    return valid_amount(value_or_error(program, "traffic_bytes"))
