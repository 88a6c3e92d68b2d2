"""Parse the JSON that a benchmark process prints, in Google Benchmark's format, into a `Block`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from dispatchflow.errors import ToolError

_NS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}


@dataclass(frozen=True, slots=True)
class Block:
    """The timing of one benchmark process, which calls a function many times."""

    ns: float
    """Mean wall time of one call in ns, including the submission of the call to the device."""
    dispatches: Mapping[str, float]
    """A mapping from the name of each dispatch to its time in one call, in ns.

    If a call executes a dispatch several times, its time is the sum. The mapping is empty if IREE's runtime does not
    report the times of dispatches (before 3.13, and on some devices)."""
    iterations: int
    """The number of calls that were timed."""
    waited: float | None = None
    """The fraction of the wall time during which the process waited for CPUs that other processes used.

    None if this fraction is unknown."""

    @property
    def dispatch_ns(self) -> float | None:
        """The time of all dispatches in one call, in ns; None if the runtime does not report it."""
        return sum(self.dispatches.values()) if self.dispatches else None


_LEAST = 0.5
"""A block is too short if its calls took less than this fraction of the requested time."""


def too_short(block: Block, block_s: float) -> bool:
    """Return whether the calls of a block took less than half of `block_s`, the requested time in s.

    A block may be too short if its number of calls was chosen when the machine was slower."""
    return block.ns * block.iterations / 1e9 < _LEAST * block_s


def refuse_impossible(block: Block, wall_s: float, block_s: float) -> None:
    """Raise an error if the times in a block cannot be right.

    Such times show that the tool used a wrong unit or clock.

    Args:
        wall_s: wall time in s of the benchmark process, measured by its parent process.
        block_s: the requested time of all calls together, in s.

    Raises:
        ToolError: the calls or a dispatch took longer than the process, or the calls took less than half of
            `block_s`.
    """
    called_s = block.ns * block.iterations / 1e9
    facts = {"said": f"{block.iterations} calls of {block.ns:.4g} ns, {called_s:.3g} s"}
    if called_s > wall_s:
        raise ToolError("the calls took longer than the whole process", {**facts, "process": f"{wall_s:.3g} s"})
    if too_short(block, block_s):
        raise ToolError("the calls took less time than was asked for", {**facts, "asked": f"{block_s:.3g} s"})
    if too_long := [ns for ns in block.dispatches.values() if ns > wall_s * 1e9]:
        raise ToolError("a dispatch took longer than the whole process", {"said": f"{too_long[0]:.4g} ns"})


def parse(text: str) -> Block:
    """Parse Google Benchmark's JSON: the time of the whole call and the times of its dispatches.

    Raises:
        ToolError: the text is not JSON of this kind, the call's time is missing or not positive, or a dispatch's time
            is negative.
    """
    try:
        # Not strict: Google Benchmark does not escape control characters in a function's name.
        records = [r for r in json.loads(text, strict=False)["benchmarks"] if r.get("run_type") == "iteration"]
        calls = [r for r in records if r["name"].endswith("/real_time")]
        dispatches = {
            r["name"].partition("/")[2]: r["real_time"] * _NS[r["time_unit"]] for r in records if r not in calls
        }
        call = calls[0]
        ns = call["real_time"] * _NS[call["time_unit"]]
        iterations = int(call["iterations"])
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ToolError(
            "the benchmark tool's output has no block", {"found": text[:200], "because": repr(error)}
        ) from error
    if call.get("error_occurred") or not 0 < ns < inf:
        raise ToolError("the benchmark tool reports no time", {"found": call.get("error_message", ns)})
    if none := [name for name, its_ns in dispatches.items() if not 0 <= its_ns < inf]:
        raise ToolError("the benchmark tool reports no time of its dispatches", {"found": dispatches[none[0]]})
    return Block(ns, dispatches, iterations)
