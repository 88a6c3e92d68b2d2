"""Compare the times of a module with times of the same module, and count the wrong verdicts.

A verdict is wrong if it is `faster` or `slower`."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.timing import CommandLine
from dispatchflow.iree import benchmark_output, command_lines
from dispatchflow.operations import Operation
from dispatchflow.planning.location import COMMAND_LINE
from dispatchflow.planning.parser import sweep
from dispatchflow.planning.plan import expand
from dispatchflow.project.workspace import Workspace
from dispatchflow.timing import comparison
from dispatchflow.timing.protocols import Protocol
from dispatchflow.tools import processes

ROUNDS = comparison.MIN_ROUNDS
_BLOCK = Protocol("same", 1, warmup_s=0.005, block_s=0.01, blocks=1, span_s=0.0, budget_s=1.0)


def pairs(folder: Path, count: int, seed: int = 0) -> Iterator[comparison.Comparison]:
    """Yield `count` comparisons of one compiled module with itself, timed in IREE's runtime.

    A comparison consists of `ROUNDS` rounds. Each round times the module twice, once for each side of the comparison,
    in random order."""
    (case,) = expand([sweep({"operation": "matmul", "m": 64, "n": 64, "k": 64, "threads": 1}, COMMAND_LINE)]).cases
    workspace, lot = Workspace(folder, {}), random.Random(seed)
    compiled = workspace.executor.compile(case)
    assert isinstance(case.operation, Operation) and compiled is not None
    inputs = [f"{operand.type.spelling}=1" for operand in case.operation.operands()]
    device = workspace.resolver.chain(case).device
    tool, flags = workspace.toolchain.tool("iree-benchmark-module"), command_lines.device_flags(device.uri, device.cpus)
    argv = command_lines.block_argv(tool, "module.vmfb", flags, inputs, _BLOCK, dispatches=False)
    for _ in range(count):
        sides: tuple[list[float], list[float]] = ([], [])
        for _ in range(ROUNDS):
            for side in lot.sample((0, 1), 2):
                with workspace.store.scratch() as scratch, workspace.store.quiet():
                    workspace.store.place(scratch, {"module.vmfb": compiled.outputs["vmfb"]})
                    command = processes.Command(argv, scratch, workspace.resolver.environment, cpus=device.cpus)
                    assert not processes.run(command).failure
                    sides[side].append(benchmark_output.parse((scratch / "stdout").read_text()).ns)
        yield comparison.compare(*sides)
    workspace.close()


def same(folder: Path, count: int) -> Iterator[CommandLine]:
    """Compare a compiled module with itself `count` times, and yield one row that counts wrong verdicts.

    A `CommandLine` is a row of the table that `python -m benchmarks` prints."""
    (folder / "same").mkdir()
    words = Counter(found.verdict for found in pairs(folder / "same", count))
    false = words["faster"] + words["slower"]
    told = ", ".join(f"{number} {word}" for word, number in words.most_common())
    what = f"{count} comparisons of equal code, {ROUNDS} rounds each: false"
    yield CommandLine(what, f"{false}", told, None, "≤ 1 of 100", false <= count / 100)
