"""Call a workload's `flops` and `traffic_bytes`, and check that a row can store the values."""

from __future__ import annotations

from typing import Any

from dispatchflow.workload import Workload

_LIMIT = 2**63  # rows store them as int64


def value_or_error(program: Workload, amount: str) -> Any:
    """Call a workload's method `flops` or `traffic_bytes`; return its value or the exception it raised.

    `amount` is the method's name. A row with an exception as its value is refused when it is written.

    Raises:
        MemoryError, OSError: the method raised this error, whose cause is the machine and not the method.
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
