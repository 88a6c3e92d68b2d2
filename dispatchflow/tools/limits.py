"""The user's limits on the time and memory of a tool. They are not part of cache keys."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dispatchflow.tools.outcome import Outcome

_FIELDS = {"compile_limit": "compile_s", "run_limit": "run_s", "block_limit": "block_s", "memory_limit": "memory_bytes"}
_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_LONGEST_S = 1e6  # system calls with a timeout do not accept arbitrarily large numbers
_LARGEST_BYTES = 2**60

# The messages of LLVM, C++, the C library, IREE's status, Python, and a thread without memory for its stack.
_NO_MEMORY = re.compile(
    r"out of memory|bad_alloc|cannot allocate memory|RESOURCE_EXHAUSTED|MemoryError|pthread_create failed",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Limits:
    compile_s: float = 300.0
    run_s: float = 120.0
    """The time limit, in s, for one call of a compiled module, for example in verification."""
    block_s: float = 300.0
    """The time limit, in s, for one benchmark process."""
    memory_bytes: int | None = None
    """The limit, in bytes, on the private writable memory of each process of a tool. None means no limit.

    Code that is mapped from files does not count."""
    memory_asked: bool = False
    """True if the user set `memory_bytes`.

    If False, `memory_bytes` is either None or the size of the machine's memory."""

    def hit(self, time_limit: str, timed_out: bool, stderr: str) -> LimitHit | None:
        """Return the limit that caused the failure of a tool, or that may have caused it.

        The memory limit is a possible cause if the user set it, or if `stderr` says that memory ran out. Returns None
        if there is no possible cause. `time_limit` is the name of the tool's time limit, such as `run_limit`.
        `timed_out` says whether the tool reached this limit."""
        if timed_out:
            return LimitHit(time_limit, self.value(time_limit))
        if self.memory_bytes is None:
            return None
        said = _NO_MEMORY.search(stderr) is not None
        # A tool that runs out of memory may fail in many ways, so a limit that the user set may be the cause.
        return LimitHit("memory_limit", self.memory_bytes, said) if said or self.memory_asked else None

    def failure(self, time_limit: str, outcome: Outcome, stderr: str) -> str | None:
        """Return why a tool failed, and which limit may be the cause. Returns None if the tool succeeded."""
        if outcome.failure is None:
            return None
        hit = self.hit(time_limit, outcome.timed_out, stderr)
        return hit.reason(outcome.failure) if hit else outcome.failure

    def raised(self, recorded: Sequence[Any] | None) -> str | None:
        """Return why a failed step runs again, such as `failed at run_limit=10, now 20`.

        `recorded` is (name, value) of the limit that may have caused the failure, or None. Returns None if `recorded`
        is None, or if the user has not raised this limit since the failure."""
        if recorded is None:
            return None
        name, value = recorded
        now = self.value(name)
        if now is not None and now <= value:
            return None
        return f"failed at {name}={shown(name, value)}, now {shown(name, now)}"

    def value(self, name: str) -> Any:
        """Return the value of the limit `name`, such as `run_limit`, in s or bytes. None means no limit."""
        return getattr(self, _FIELDS[name])


DEFAULT = Limits()


@dataclass(frozen=True, slots=True)
class LimitHit:
    """A limit that caused the failure of a tool, or that may have caused it.

    `value` is the limit itself, in s or bytes."""

    name: str
    value: float
    certain: bool = True
    """True if the limit certainly made the tool fail. False if there may be another cause."""

    def reason(self, otherwise: str | None) -> str:
        """Return a text that names the limit as the cause, or as the possible cause, of a failure.

        `otherwise` says how the process failed, such as `exit code 1`. The text contains it only if the limit is merely
        a possible cause."""
        what = "ran out of memory at" if self.name == "memory_limit" else "took longer than"
        what = what if self.certain else f"{otherwise}, under"
        return f"{what} {self.name}={shown(self.name, self.value)}; a higher {self.name} tries again"


def shown(name: str, value: float | None) -> str:
    """Return the value of a limit as the command line spells it, such as `8GiB`.

    A number with many digits is rounded. `name` is the name of the limit, such as `memory_limit`."""
    if value is None:
        return "none"
    if name != "memory_limit":
        return f"{value:g}"
    unit, size = next((u, s) for u, s in reversed(_UNITS.items()) if value >= s or s == 2**10)
    return f"{value / size:.4g}{unit}"


def seconds(text: str) -> float:
    """Parse a time limit in s.

    Raises:
        ValueError: `text` is not a number above 0, or the number is too large.
    """
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not isfinite(value) or not 0 < value <= _LONGEST_S:
        raise ValueError(f"a number of seconds above 0, at most {_LONGEST_S:,.0f}")
    return value


def percent(text: str) -> float:
    """Parse a percentage. For example, the result for `5%` is 0.05.

    Raises:
        ValueError: `text` is not a percentage above 0% and at most 100%."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)%", text, re.ASCII)
    if match is None or not 0 < (value := float(match[1])) <= 100:
        raise ValueError("a percentage such as 5%, above 0%, at most 100%")
    return value / 100


def memory(text: str) -> int | None:
    """Parse a memory limit, such as `8GiB`, and return it in bytes. The result for `none` is None.

    Raises:
        ValueError: `text` is not a size, or the size is 0 or too large."""
    if text == "none":
        return None
    try:
        value = size(text)
    except ValueError:
        value = 0
    if not 0 < value <= _LARGEST_BYTES:
        raise ValueError("a size such as 512MiB or 8GiB, at most 1,048,576TiB, or none")
    return value


def size(text: str) -> int:
    """Parse a size, such as `500MB` or `2GiB`, and return it in bytes.

    Raises:
        ValueError: `text` is not a number with a unit."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?(?:([KMGT])(i?)B|B)", text)
    if match is None:
        raise ValueError("a number with its unit, such as 500MB or 2GiB")
    number, prefix, binary = match.groups()
    power = "KMGT".index(prefix) + 1 if prefix else 0
    return int(float(number) * (1024 if binary else 1000) ** power)
