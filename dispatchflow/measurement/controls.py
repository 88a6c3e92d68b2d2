"""Choose and measure controls: a few cases that show whether two runtimes are equally fast.

The controls are measured alternately with the old and the new runtime. If the old runtime is no longer available, its
times from an earlier run are used."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from dispatchflow import units
from dispatchflow.cases.case import Case
from dispatchflow.engine.stages import StageExecutor
from dispatchflow.engine.state import CaseState
from dispatchflow.errors import ToolError, in_one_line
from dispatchflow.iree.targets import Device
from dispatchflow.iree.toolchain import Toolchain
from dispatchflow.measurement import session
from dispatchflow.measurement.session import BlockRunner
from dispatchflow.measurement.trials import Trial
from dispatchflow.store import holders
from dispatchflow.store.entries import Measurement
from dispatchflow.timing import runtime_drift
from dispatchflow.timing.comparison import Comparison, compare, compare_apart
from dispatchflow.timing.runtime_drift import (
    ALL_ROUNDS,
    FIRST_CONFIDENCE,
    FIRST_ROUNDS,
    FLOOR,
    FLOOR_APART,
    UNSOUND,
    Control,
    Judgement,
)
from dispatchflow.timing.statistics import summary
from dispatchflow.tools.toolchain import runtime_of

_PATIENCE_S = 0.2
_FAILURES = 2
"""The number of failures after which a block (one benchmark process) is not tried again."""


def questions(
    reused: Iterable[CaseState], judged: Callable[[Measurement, Device], Judgement | None], block_s: float, run: str
) -> list[tuple[list[CaseState], list[CaseState]]]:
    """Return (cases, controls) for each group of cases that needs a new judgement.

    A judgement says whether an old and the new runtime are equally fast on a device. Each case in `reused` reuses
    a measurement that was taken with an old runtime. `judged` returns the recorded judgement about a measurement's
    runtime, or None."""
    groups: dict[tuple[str, str], list[CaseState]] = {}
    for chain in reused:
        groups.setdefault((str(reused_measurement(chain).runtime), chain.device.uri), []).append(chain)
    found = []
    for group in groups.values():
        known, chosen = judged(reused_measurement(group[0]), group[0].device), choose(group, block_s)
        if chosen and (known is None or known.should_be_repeated(len(chosen), run)):
            found.append((group, chosen))
    return found


def reused_measurement(chain: CaseState) -> Measurement:
    """Return the measurement that a case reuses. The case must have one."""
    taken = chain["profile"].measurement
    assert taken is not None
    return taken


def choose(chains: Iterable[CaseState], block_s: float) -> list[CaseState]:
    """Choose up to three cases as controls: those with the shortest, the median and the longest call.

    Cases with calls of more than `block_s` seconds are left out. If all calls are longer, the result is the case with
    the shortest call."""
    medians: dict[str, tuple[float, CaseState]] = {}
    for chain in chains:
        if (taken := reused_measurement(chain)).blocks_ns:
            medians.setdefault(taken.key, (summary(taken.blocks_ns).median_ns, chain))
    ordered = sorted(medians.values(), key=lambda item: (item[0], item[1].case.name))
    cheap = [chain for ns, chain in ordered if ns <= block_s * 1e9] or [chain for _, chain in ordered[:1]]
    return [cheap[i] for i in sorted({0, len(cheap) // 2, len(cheap) - 1})] if cheap else []


@dataclass
class _Sides:
    """The times of one control with the old and the new runtime.

    If `together` is true, the runtimes are measured alternately. Otherwise the old runtime cannot be used, and its
    times come from the earlier measurement `recorded`."""

    case: str
    trial: Trial
    recorded: Measurement
    together: bool
    old_ns: list[float] = field(default_factory=list)
    new_ns: list[float] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def comparison(self) -> Comparison:
        if not self.new_ns:
            return Comparison(1.0, None, None, 0, "undecided")
        if self.together:
            return compare(self.old_ns, self.new_ns, FLOOR)
        return compare_apart(self.recorded.blocks_ns, self.new_ns, FLOOR_APART)

    @property
    def plainly_moved(self) -> bool:
        """True if the case fails with the new runtime, or is clearly faster or slower than with the old one."""
        if "new" in self.failures:
            return True
        enough = self.together and len(self.new_ns) > 0
        return enough and compare(self.old_ns, self.new_ns, FLOOR, FIRST_CONFIDENCE).verdict in ("faster", "slower")

    def control(self) -> Control:
        old = self.old_ns if self.together else self.recorded.blocks_ns
        return Control(
            self.case, self.together, self.comparison, self.failures.get("new"), tuple(old), tuple(self.new_ns)
        )


class Say(Protocol):
    """Print a line. If `seldom` is true, print the line only if nothing was printed for a long time."""

    def __call__(self, line: str, seldom: bool = False) -> None: ...


class Controls:
    """Decides whether two runtimes are equally fast.

    `trial_of` prepares the measurement of a case. It returns None if the case's code or inputs cannot be created."""

    def __init__(
        self, executor: StageExecutor, bench: BlockRunner, trial_of: Callable[[Case], Trial | None], say: Say
    ) -> None:
        self._executor, self._bench, self._trial_of, self._say = executor, bench, trial_of, say
        self._store, self._resolver, self._run = executor.store, executor.resolver, executor.run

    def judge(self, reused: Iterable[CaseState]) -> list[Case]:
        """Return the cases whose reused measurements are not valid, because the runtime's speed has changed.

        If no comparison of the old and the new runtime is recorded, the method measures a few cases, or waits for
        another run that does so. Call the method from one thread only."""
        resolver, block_s = self._resolver, self._resolver.settings.protocol.block_s
        moved: list[Case] = []
        for group, chosen in questions(reused, resolver.reuse.judged, block_s, self._run):
            taken, device = reused_measurement(group[0]), group[0].device
            name = runtime_drift.name(str(taken.runtime), resolver.toolchain.runtime_digest, device.identity)
            if (judgement := self._recorded_or_measured(name, chosen)) is not None:
                self._say(judgement.text)
                moved += [chain.case for chain in group] if judgement.moved else []
        resolver.forget_judgements()
        return moved

    def _recorded_or_measured(self, name: str, chosen: Sequence[CaseState]) -> Judgement | None:
        """Return the judgement that is recorded under `name`; if necessary, create and record a new one.

        A judgement says whether two runtimes are equally fast. A new judgement is necessary if none is recorded, or if
        the recorded judgement should be repeated. For a new judgement, the cases `chosen` are measured. Returns None if
        none of these cases can run."""
        store = self._store
        claim = name.partition(":")[2]
        began = time.monotonic()
        while not store.claims.take(claim):
            time.sleep(_PATIENCE_S)
            if time.monotonic() - began > holders.PATIENCE_S:
                store.claims.report_holder(claim, "compares these runtimes")
        try:
            text = store.records.remembered(name)  # another invocation may have been first
            known = runtime_drift.from_json(text) if text else None
            if known is not None and not known.should_be_repeated(len(chosen), self._run):
                return known
            judgement = self._measure(chosen)
            if judgement is not None:
                store.records.remember(name, judgement.json())
                if judgement.unsound:  # for all other runtimes too: see `Reuse.judged`
                    runtime, device = self._resolver.toolchain.runtime_digest, chosen[0].device
                    own = runtime_drift.name(runtime, runtime, device.identity)
                    store.records.remember(own, judgement.json())
            return judgement
        finally:
            store.claims.drop(claim)

    def _measure(self, chosen: Sequence[CaseState]) -> Judgement | None:
        toolchain, taken = self._resolver.toolchain, reused_measurement(chosen[0])
        # Controls need no dispatch statistics, for which each block would call the module once more.
        present = replace(toolchain, dispatch_statistics=False)
        place = runtime_of(self._store, str(taken.runtime))
        former = None if place is None else replace(present, runtime=place)
        sides = [
            _Sides(chain.case.name, trial, reused_measurement(chain), former is not None)
            for chain in chosen
            if (trial := self._trial_of(chain.case)) is not None
        ]
        if not sides:
            return None
        for side in sides:
            typical_ns = sorted(side.recorded.blocks_ns)[len(side.recorded.blocks_ns) // 2]
            side.trial.iterations = max(1, round(side.trial.protocol.block_s * 1e9 / typical_ns))
        old, new = _labels(taken, toolchain)
        how = "in the same rounds" if former else "the old one is not available: against the recorded blocks"
        names = {side.case for side in sides}
        if not self._gives_other_results(sides, [chain for chain in chosen if chain.case.name in names]):
            self._say(f"measuring {units.count(len(sides), 'control')} with runtimes {old} and {new}, {how}")
            self._rounds(sides, former, present)
        controls = tuple(side.control() for side in sides)
        return Judgement(old, new, chosen[0].device.uri, self._run, time.time(), controls)

    def _gives_other_results(self, sides: Sequence[_Sides], chosen: Sequence[CaseState]) -> bool:
        # If the results of one control are wrong, no control is timed.
        for side, chain in zip(sides, chosen, strict=True):
            if (why := self._executor.recheck(chain.case, chain.device)) is not None:
                side.failures["new"] = f"{UNSOUND}{why}"
                return True
        return False

    def _rounds(self, sides: Sequence[_Sides], former: Toolchain | None, present: Toolchain) -> None:
        lot = random.Random(self._run)
        for number in range(ALL_ROUNDS):
            if number == FIRST_ROUNDS:
                if any(side.plainly_moved for side in sides):
                    return
                sides = [side for side in sides if side.comparison.verdict != "same"]
            self._say(f"round {number + 1} of {ALL_ROUNDS} at most", seldom=True)
            going = [side for side in sides if "new" not in side.failures]
            for side in lot.sample(going, len(going)):
                pair = {"old": former, "new": present} if former and side.together else {"new": present}
                # The processes run in the random order of this dict.
                self._round(side, {word: pair[word] for word in lot.sample(sorted(pair), len(pair))})

    def _round(self, side: _Sides, pair: dict[str, Toolchain]) -> None:
        """Time a control once with each toolchain, and add the times to `side`.

        `pair` has the keys `old` and `new`, or only `new`."""
        # If the new runtime fails, the round does not count. If the old one fails, the new runtime's blocks are
        # compared with the blocks that were recorded with the old one.
        found: dict[str, float] = {}
        for word, tools in pair.items():
            for attempts_left in reversed(range(_FAILURES)):
                try:
                    found[word] = self._block(side.trial, tools)
                    break
                except (ToolError, OSError) as error:
                    if not attempts_left:
                        side.failures[word] = f"benchmark failed: {in_one_line(error)}"
        if "old" in side.failures:  # the old runtime cannot run the new compiler's code
            side.together = False
        if "new" in found:
            side.new_ns.append(found["new"])
            if side.together:
                side.old_ns.append(found["old"])

    def _block(self, trial: Trial, tools: Toolchain) -> float:
        return session.run_block(self._bench, tools, trial)[0].ns


def _labels(taken: Measurement, present: Toolchain) -> tuple[str, str]:
    """Return the versions of the old and the new runtime, as text for messages.

    If the versions are equal, the first digits of a hash of each runtime's files are added."""
    old, new = str(taken.conditions.get("runtime", "unknown")), present.runtime_version
    if old != new:
        return old, new
    return f"{old} ({str(taken.runtime)[:8]})", f"{new} ({present.runtime_digest[:8]})"
