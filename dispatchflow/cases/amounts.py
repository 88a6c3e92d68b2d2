"""What one call of a program does, in flops and bytes: as it says itself, and as far as that is a number."""

from __future__ import annotations

from typing import Any

from dispatchflow.workload import Workload

_LIMIT = 2**63  # rows have them as int64


def value_or_error(program: Workload, amount: str) -> Any:
    """The amount that an operation's own file gives, or the exception that it raised: this fits no column, and so the
    row is refused as with any other wrong value."""
    try:
        return getattr(program, amount)()
    except (MemoryError, OSError):  # not its fault
        raise
    except (Exception, SystemExit) as error:
        return error


def valid_amount(value: Any) -> int | None:
    """The value, where it is a whole number that a row can have; None for anything else."""
    return value if type(value) is int and -_LIMIT <= value < _LIMIT else None  # no bool, nor an integer of numpy's


def traffic_bytes(program: Workload) -> int | None:
    """Of one call; None where nobody said, or said no whole number."""
    return valid_amount(value_or_error(program, "traffic_bytes"))
