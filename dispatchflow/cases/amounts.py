"""Read the flops and bytes of one call from a workload; None if a row cannot store the value."""

from __future__ import annotations

from typing import Any

from dispatchflow.workload import Workload

_LIMIT = 2**63  # rows store them as int64


def value_or_error(program: Workload, amount: str) -> Any:
    """Call the method `amount` of a workload; return its value, or the exception that it raised.

    If the exception is put into a row, the row is refused like any row with a wrong value: no column can store it.

    Raises:
        MemoryError, OSError: the method raised this error, which is not the operation's fault.
    """
    try:
        return getattr(program, amount)()
    except (MemoryError, OSError):  # not the operation's fault
        raise
    except (Exception, SystemExit) as error:
        return error


def valid_amount(value: Any) -> int | None:
    """Return the value if it is an integer that a row can store; None for anything else."""
    return value if type(value) is int and -_LIMIT <= value < _LIMIT else None  # neither a bool nor a numpy integer


def traffic_bytes(program: Workload) -> int | None:
    """Return the traffic of one call in bytes; None if it is unknown or not an integer."""
    return valid_amount(value_or_error(program, "traffic_bytes"))
