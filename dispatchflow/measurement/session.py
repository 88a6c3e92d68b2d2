"""Measure pending cases in rounds, until each case has enough blocks.

A block is one benchmark process. A round runs one block of each case of a group, in random order. If the machine
becomes faster or slower, all cases of the group are affected alike."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dispatchflow.errors import ToolError, in_one_line
from dispatchflow.iree import benchmark_output
from dispatchflow.iree.targets import Device
from dispatchflow.iree.toolchain import Toolchain
from dispatchflow.keys import Key
from dispatchflow.measurement.trials import Trial
from dispatchflow.store import disk, holders
from dispatchflow.store.entries import Measurement
from dispatchflow.store.store import Store
from dispatchflow.timing import statistics
from dispatchflow.tools import machine, processes
from dispatchflow.tools.limits import Limits

_PATIENCE_S = 0.2
# An interrupted run loses its incomplete measurements. Therefore not all cases are measured in one group.
_GROUP_S = 600.0
"""The time budgets of the cases in a group add up to at most this number of seconds.

A group consists of cases that are measured in the same rounds. Cases of the same shape (operation, sizes and types)
stay in one group, even if they need more time."""


@dataclass(frozen=True, slots=True)
class BlockRunner:
    """The store, the environment variables, and the time and memory limits for benchmark processes."""

    store: Store
    environment: Mapping[str, str]
    limits: Limits


class Session:
    """The pending measurements of one run. Only one thread may use a session."""

    def __init__(
        self,
        bench: BlockRunner,
        toolchain: Toolchain,
        run: str,
        on_block: Callable[[Trial, int], None] = lambda trial, undecided: None,
        refusal: Callable[[Measurement, Device], str | None] = lambda measurement, device: None,
        sleep: Callable[[float], object] = time.sleep,
        pauses: bool = True,
    ) -> None:
        """Prepare the session of one run.

        Args:
            on_block: called after each block of a measurement that was added by `add`. It is not called for blocks of
                anchors. The arguments are the measurement, and the number of unfinished
                measurements with the same protocol.
            refusal: returns why this run cannot use a measurement of another run, or None if it can. The second
                argument is the device that was measured.
            pauses: whether to wait between rounds. It is False only in tests that do not check times."""
        self._bench, self._store, self._toolchain = bench, bench.store, toolchain
        self._run, self._on_block, self._refusal, self._sleep = run, on_block, refusal, sleep
        self._pauses = pauses
        self._trials: dict[Key, Trial] = {}
        self._random = random.Random(run)  # the run's name is in every row, so the order can be reproduced
        self._blocks = self._rounds()
        self._group: list[Trial] = []
        self._groups = 0
        self._newest_before = self._store.records.last_measurement()

    @property
    def undecided(self) -> list[Trial]:
        return [trial for trial in self._trials.values() if trial.outcome is None]

    def add(self, trial: Trial) -> Trial:
        """Add a measurement (trial) to the session, and return the trial to use.

        If the session has an unfinished trial with the same key, that trial is returned and nothing is added."""
        known = self._trials.get(trial.key)
        if known is not None and known.outcome is None:
            return known
        self._trials[trial.key] = trial
        return trial

    def measure_until_decided(self, trial: Trial) -> None:
        """Run rounds until this measurement is decided: it is complete, or it has failed.

        The other measurements of the group (see `_GROUP_S`) may be decided, too."""
        if trial.outcome is None and trial.rounds is None:
            # Claimed trials stay in the rounds: another invocation may wait for them while we wait for its trials.
            self._group += self._group_of(trial)
        while trial.outcome is None:
            next(self._blocks)

    def _group_of(self, first: Trial) -> list[Trial]:
        """Return a new group: `first` and other pending measurements, which then run alternately."""
        shapes: dict[str, list[Trial]] = {first.shape: []}
        for trial in self.undecided:
            if trial.rounds is None:
                shapes.setdefault(trial.shape, []).append(trial)
        found: list[Trial] = []
        for trials in shapes.values():
            if found and sum(trial.protocol.budget_s for trial in [*found, *trials]) > _GROUP_S:
                break
            found += trials
        self._groups += 1
        for trial in found:
            trial.rounds = f"{self._run}/{self._groups}"
        return found

    def _rounds(self) -> Iterator[None]:
        """Run rounds of the group; yield after each wait, and after each block except those of anchors."""
        began = waited_s = 0.0
        while True:
            order = self._group = [trial for trial in self._group if trial.outcome is None]
            ours = [trial for trial in order if self._claim(trial)]
            if not ours:
                if awaited := [trial for trial in order if trial.outcome is None]:  # another run measures them
                    self._sleep(_PATIENCE_S)
                    if (waited_s := waited_s + _PATIENCE_S) > holders.PATIENCE_S:
                        self._store.claims.report_holder(awaited[0].key, f"measures {awaited[0].label}")
                yield
                continue
            waited_s = 0.0
            if self._pauses:
                self._sleep(max(0.0, began + max(trial.protocol.pause_s for trial in ours) - time.monotonic()))
            began = time.monotonic()
            for trial in self._round(ours):
                if trial.what == "anchor":
                    self._anchor(trial, ours)
                elif trial.outcome is None:
                    self._block(trial)
                    yield

    def _round(self, ours: Sequence[Trial]) -> list[Trial]:
        """Return the measurements of a round in their order: first the anchors, then the cases.

        The anchors are in random order, and so are the cases. Anchors are kernels that never change; their times show
        the speed of the machine."""
        # Anchors are first, so that a case that is finished in this round has their blocks too.
        places = {id(trial.anchors): trial.anchors for trial in ours if trial.anchors is not None}
        for trial in ours:
            if not trial.blocks_ns and trial.anchors is not None:
                trial.since = trial.anchors.marks()
        anchors = [anchor for place in places.values() for anchor in place.trials]
        return [*self._random.sample(anchors, len(anchors)), *self._random.sample(ours, len(ours))]

    def _anchor(self, anchor: Trial, ours: Sequence[Trial]) -> None:
        """Run one block (benchmark process) of an anchor.

        If the anchor's first block fails, the anchor is removed from the run."""
        try:
            block, _ = run_block(self._bench, self._toolchain, anchor)
        except (ToolError, OSError) as error:
            disk.check(self._store.root, str(error))
            if not anchor.blocks_ns:
                for place in {id(trial.anchors): trial.anchors for trial in ours if trial.anchors}.values():
                    place.failed(anchor)
            return
        anchor.blocks_ns.append(block.ns)
        anchor.waits.append(block.waited if self._pauses else None)
        anchor.iterations = anchor.iterations or max(1, round(anchor.protocol.block_s * 1e9 / block.ns))

    def _claim(self, trial: Trial) -> bool:
        """Try to lock a measurement for this run; return whether this run must measure the next block.

        Returns False if another run holds the lock or has just completed the measurement. The blocks and the outcome of
        a completed measurement are copied to `trial`."""
        if trial.claimed:
            return True
        if not self._store.claims.take(trial.key):
            trial.awaited = True
            return False
        theirs = self._store.records.measurement(trial.key)
        later = theirs is not None and theirs.run != self._run and theirs.id > self._newest_before
        if theirs is not None and (trial.awaited or later) and not self._refusal(theirs, trial.device):
            self._store.claims.drop(trial.key)
            trial.outcome, trial.reason, trial.adopted = theirs.status, theirs.reason, True
            trial.blocks_ns = [*theirs.blocks_ns]
            return False
        trial.claimed = True
        return True

    def _block(self, trial: Trial) -> None:
        records = self._store.records
        if trial.id is None:
            trial.began = machine.conditions()
            trial.id = records.begin_measurement(trial.key, trial.ingredients, trial.began, self._run)
        try:
            block, cost_s = run_block(self._bench, self._toolchain, trial)
        except (ToolError, OSError) as error:
            disk.check(self._store.root, str(error))
            trial.outcome, trial.reason = "failed", f"benchmark failed: {in_one_line(error)}"
            trial.failure.setdefault("repeatable", not isinstance(error, OSError))
        else:
            trial.spent_s += trial.spent(block, cost_s)
            block = block if self._pauses else replace(block, waited=None)  # tests that run in parallel wait for CPUs
            if not trial.retake(block):
                records.add_block(trial.id, len(trial.blocks_ns), block.ns, block.dispatch_ns, cost_s)
                trial.add(block)
            if statistics.decided(len(trial.blocks_ns), trial.spent_s, trial.protocol):
                trial.outcome = "noisy" if trial.unsure else "measured"
        if trial.outcome is not None:
            records.end_measurement(trial.id, trial.outcome, trial.reason, self._conditions(trial))
            self._store.claims.drop(trial.key)
        self._on_block(trial, sum(other.protocol is trial.protocol for other in self.undecided))

    def _conditions(self, trial: Trial) -> dict[str, Any]:
        now = machine.conditions()
        steal = now["steal_ticks"] - trial.began["steal_ticks"]
        moment, anchors_ns = (
            trial.anchors.moment(trial.key, trial.since, trial.blocks_ns) if trial.anchors is not None else (None, {})
        )
        return {
            **trial.began,
            **trial.failure,
            "session": None if moment is None else moment.json(),
            "anchors_ns": anchors_ns,
            "rounds": trial.rounds,
            **({} if self._pauses else {"pauses": False}),
            "dispatches_ns": trial.dispatches_ns,
            "waits": trial.waits,
            "disturbed_blocks": trial.disturbed_blocks if None not in trial.waits else None,
            "retaken_blocks": trial.retaken,
            "steal_ticks": steal,
            "load_1m_end": now["load_1m"],
            "cpus": list(trial.device.cpus),
            **trial.ran_with(self._toolchain),
        }


def run_block(bench: BlockRunner, toolchain: Toolchain, trial: Trial) -> tuple[benchmark_output.Block, float]:
    """Run one benchmark process, alone on the machine; return (block, wall time in seconds).

    The block has the times that the process printed. If the process ends much too early, a second process replaces it,
    and the wall time is the sum of both wall times.

    Raises:
        ToolError: the tool failed, or printed impossible times.
        OSError: the tool could not be started."""
    block, wall_s = _run(bench, toolchain, trial)
    cost_s = wall_s
    if trial.iterations is not None and benchmark_output.too_short(block, trial.protocol.block_s):
        trial.iterations = None
        block, wall_s = _run(bench, toolchain, trial)
        cost_s += wall_s
    benchmark_output.refuse_impossible(block, wall_s, trial.protocol.block_s)
    return block, cost_s


def _run(bench: BlockRunner, toolchain: Toolchain, trial: Trial) -> tuple[benchmark_output.Block, float]:
    """Run one benchmark process; return the times that it printed, and its wall time in seconds."""
    with bench.store.scratch() as scratch:
        bench.store.place(scratch, trial.objects)
        command = processes.Command(
            trial.argv(toolchain), scratch, bench.environment, time_limit_s=min(bench.limits.block_s, trial.longest_s),
            memory_limit_bytes=bench.limits.memory_bytes, cpus=trial.device.cpus,
            count_waits=True,
        )  # fmt: skip
        with bench.store.quiet():
            outcome = processes.run(command)
        if outcome.failure:
            stderr = processes.shortened(scratch / "stderr", 600)
            trial.failure["repeatable"] = outcome.repeatable
            facts = {"stderr": stderr} if stderr else {}
            if (hit := bench.limits.hit("block_limit", outcome.timed_out, stderr)) is None:
                raise ToolError(outcome.failure, facts)
            trial.failure["limit"] = (hit.name, hit.value)
            raise ToolError(hit.reason(outcome.failure), {} if hit.certain else facts)
        block = benchmark_output.parse((scratch / "stdout").read_text(errors="replace"))
        if outcome.waited_s is not None:
            block = replace(block, waited=outcome.waited_s / outcome.wall_s)
        return block, outcome.wall_s
