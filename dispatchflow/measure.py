"""Measures all pending cases in rounds of random order, one block each, until each is decided.

Drift (clocks, neighbours, heat) then falls on all alike. Blocks are recorded as they end.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dispatchflow import blocks, commands, machine, processes, room, statistics
from dispatchflow.errors import ToolError
from dispatchflow.keys import Digest, Key
from dispatchflow.limits import Limits
from dispatchflow.locks import Machine
from dispatchflow.protocols import Protocol
from dispatchflow.store import Store
from dispatchflow.targets import Device
from dispatchflow.toolchain import Toolchain
from dispatchflow.types import TensorType

_PATIENCE_S = 0.2


@dataclass
class Trial:
    """One measurement on its way. `outcome` is None until it is decided: `measured`, `noisy` or `failed`."""

    key: Key
    label: str
    module: Digest
    operands: Sequence[tuple[TensorType, Digest | None]]
    """None: all ones, which need no file."""
    device: Device
    ingredients: Mapping[str, Any]
    protocol: Protocol
    blocks_ns: list[float] = field(default_factory=list)
    spent_s: float = 0.0
    iterations: int | None = None
    id: int | None = None
    began: dict[str, Any] = field(default_factory=dict)
    claimed: bool = False
    awaited: bool = False
    outcome: str | None = None
    reason: str | None = None
    failure: dict[str, Any] = field(default_factory=dict)
    """What decides whether a failure is tried again: `limit`, `repeatable`; recorded with the conditions."""
    adopted: bool = False
    """Another invocation measured it while this one was waiting."""

    def objects(self) -> dict[str, Digest]:
        """The files that the block reads, by the names on its command line."""
        inputs = {f"random_{i}.bin": digest for i, (_, digest) in enumerate(self.operands) if digest is not None}
        return {"module.vmfb": self.module, **inputs}

    def argv(self, toolchain: Toolchain) -> tuple[str, ...]:
        files = [None if digest is None else f"random_{i}.bin" for i, (_, digest) in enumerate(self.operands)]
        return commands.block_argv(
            toolchain.tool("iree-benchmark-module"),
            "module.vmfb",
            commands.device_flags(self.device.uri, self.device.cpus),
            commands.input_flags([tensor for tensor, _ in self.operands], files),
            self.protocol,
            self.iterations,
            # A second pass as long as the first: enough of them for a median, not one a block.
            dispatches=toolchain.dispatch_statistics and len(self.blocks_ns) < self.protocol.min_blocks,
        )


class Session:
    """The pending measurements of one invocation. Not for several threads: blocks are alone anyway."""

    def __init__(
        self,
        store: Store,
        toolchain: Toolchain,
        environment: Mapping[str, str],
        lock: Machine,
        limits: Limits,
        run: str,
        on_block: Callable[[Trial, int], None] = lambda trial, undecided: None,
    ) -> None:
        self._store, self._toolchain, self._environment, self._lock = store, toolchain, environment, lock
        self._limits, self._run, self._on_block = limits, run, on_block
        self._trials: dict[Key, Trial] = {}
        self._random = random.Random(run)  # the run's name is in every row: the order can be had again
        self._blocks = self._rounds()
        self._newest_before = store.records.last_measurement()

    @property
    def undecided(self) -> list[Trial]:
        return [trial for trial in self._trials.values() if trial.outcome is None]

    def add(self, trial: Trial) -> Trial:
        """Equal keys are one measurement, unless the last one is decided already."""
        known = self._trials.get(trial.key)
        if known is not None and known.outcome is None:
            return known
        self._trials[trial.key] = trial
        return trial

    def decide(self, trial: Trial) -> None:
        """Go on with the rounds until this one is decided; others are decided on the way."""
        while trial.outcome is None:
            next(self._blocks)

    def _rounds(self) -> Iterator[None]:
        while True:
            order = self.undecided
            self._random.shuffle(order)
            ours = [trial for trial in order if self._claimed(trial)]
            for trial in ours:
                self._block(trial)
                yield
            if not ours:
                if self.undecided:  # another invocation is at all that is left
                    time.sleep(_PATIENCE_S)
                yield

    def _claimed(self, trial: Trial) -> bool:
        """Whether the next block of this trial is ours to run. What another invocation measured meanwhile is taken."""
        if trial.claimed:
            return True
        if not self._store.claims.take(trial.key):
            trial.awaited = True
            return False
        theirs = self._store.records.measurement(trial.key)
        later = theirs is not None and theirs.run != self._run and theirs.id > self._newest_before
        if theirs is not None and (trial.awaited or later):
            self._store.claims.drop(trial.key)
            trial.outcome, trial.reason, trial.adopted = theirs.status, theirs.reason, True
            return False
        trial.claimed = True
        return True

    def _block(self, trial: Trial) -> None:
        records = self._store.records
        if trial.id is None:
            trial.began = machine.conditions()
            trial.id = records.begin_measurement(trial.key, trial.ingredients, trial.began, self._run)
        try:
            block, cost_s = self._measured(trial)
        except (ToolError, OSError) as error:
            room.check(self._store.root, str(error))
            trial.outcome, trial.reason = "failed", f"benchmark failed: {error}"
            trial.failure.setdefault("repeatable", not isinstance(error, OSError))
        else:
            records.add_block(trial.id, len(trial.blocks_ns), block.ns, block.dispatch_ns, cost_s)
            trial.blocks_ns.append(block.ns)
            trial.spent_s += cost_s
            typical_ns = statistics.median(sorted(trial.blocks_ns))
            trial.iterations = max(1, round(trial.protocol.block_s * 1e9 / typical_ns))
            trial.outcome = statistics.decision(trial.blocks_ns, trial.spent_s, trial.protocol)
        if trial.outcome is not None:
            records.end_measurement(trial.id, trial.outcome, trial.reason, self._conditions(trial))
            self._store.claims.drop(trial.key)
        self._on_block(trial, sum(other.protocol is trial.protocol for other in self.undecided))

    def _measured(self, trial: Trial) -> tuple[blocks.Block, float]:
        argv = trial.argv(self._toolchain)
        with self._store.scratch() as scratch:
            self._store.place(scratch, trial.objects())
            command = processes.Command(
                argv, scratch, self._environment, time_limit_s=self._limits.block_s,
                memory_limit_bytes=self._limits.memory_bytes, cpus=trial.device.cpus,
            )  # fmt: skip
            with self._lock.quiet():
                outcome = processes.run(command)
            if outcome.failure:
                stderr = processes.shortened(scratch / "stderr", 600)
                if hit := self._limits.hit("block_limit", outcome.timed_out, stderr):
                    trial.failure["limit"] = (hit.name, hit.value)
                    raise ToolError(hit.reason)
                trial.failure["repeatable"] = outcome.repeatable
                raise ToolError(outcome.failure, {"stderr": stderr} if stderr else {})
            return blocks.parse((scratch / "stdout").read_text(errors="replace")), outcome.wall_s

    def _conditions(self, trial: Trial) -> dict[str, Any]:
        now = machine.conditions()
        steal = now["steal_ticks"] - trial.began["steal_ticks"]
        return {
            **trial.began,
            **trial.failure,
            "steal_ticks": steal,
            "load_1m_end": now["load_1m"],
            "cpus": list(trial.device.cpus),
            "runtime": self._toolchain.runtime_version,
            "toolchain": self._toolchain.version,
        }
