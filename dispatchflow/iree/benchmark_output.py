"""One benchmark process's JSON → one block."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from dispatchflow.errors import ToolError

_NS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}


@dataclass(frozen=True, slots=True)
class Block:
    """`ns` is wall time of one call, submission included; `dispatches` what each dispatch took by the runtime's own
    account, all its executions in one call together, in ns; empty where the runtime tells none (before 3.13, and on
    some devices). `waited`: for what part of its time the process waited for a CPU on which others ran; None
    where nobody knows."""

    ns: float
    dispatches: Mapping[str, float]
    iterations: int
    waited: float | None = None

    @property
    def dispatch_ns(self) -> float | None:
        """All of them together."""
        return sum(self.dispatches.values()) if self.dispatches else None


_LEAST = 0.5
"""The part of the block's time that the calls take at least."""


def too_short(block: Block, block_s: float) -> bool:
    """Whether the calls took much less than the block's time. Asked for a time, the tools do not stop before it; a
    number of calls that was found while the machine was slower takes less time later."""
    return block.ns * block.iterations / 1e9 < _LEAST * block_s


def refuse_impossible(block: Block, wall_s: float, block_s: float) -> None:
    """`wall_s`: of the whole process, as it was seen from outside. `block_s`: the time that was asked for.

    Raises:
        ToolError: the calls cannot have taken as long as the tool says, or as short: a wrong unit, a wrong clock.
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
    """From Google-Benchmark JSON, in each record's own `time_unit`; aggregates are ignored.

    Raises:
        ToolError: no record of the whole call, or a time that is not positive.
    """
    try:
        # Not strict: Google Benchmark writes control characters of a function's name as they are.
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
