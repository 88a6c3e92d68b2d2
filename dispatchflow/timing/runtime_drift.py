"""Decide whether two versions of the runtime are equally fast on a device.

A few cases, called controls, are measured with each version. If the versions are equally fast, measurements with the
old version stay valid (docs/upgrades.md)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from math import log
from typing import Any

from dispatchflow.keys import key_of
from dispatchflow.timing.comparison import Comparison

CONTROLS = 3
FIRST_ROUNDS, ALL_ROUNDS = 14, 28
"""The number of rounds after which a comparison may end early, and the largest number of rounds.

In each round, each control is measured once. A control whose verdict is `same` after `FIRST_ROUNDS` is not measured
further. The comparison of all controls ends after `FIRST_ROUNDS` if one control is `faster` or `slower` with the
confidence `FIRST_CONFIDENCE`."""

FIRST_CONFIDENCE = 0.9998

FLOOR = 0.02
"""Relative changes below this value do not count if the two runtimes are measured alternately.

The place of a runtime's program in memory can cause such changes. They do not average out, because this place is the
same in all rounds of the comparison."""

UNSOUND = "verification failed: "
"""The beginning of `Control.failure` if the case's results are wrong with the new runtime."""

FLOOR_APART = 0.1
"""Relative changes below this value do not count if the old runtime's times are from an earlier run.

The machine may have become faster or slower since that run."""


@dataclass(frozen=True, slots=True)
class Control:
    """The times of a control with the old and the new runtime, and their comparison."""

    case: str
    together: bool
    """True if the two runtimes were measured alternately. If False, `old_ns` are from an earlier run."""
    comparison: Comparison
    failure: str | None
    """The reason why the case fails with the new runtime. None if the case passes."""
    old_ns: tuple[float, ...]
    """The mean call times of the benchmark processes with the old runtime, in ns."""
    new_ns: tuple[float, ...]

    @property
    def moved(self) -> bool:
        """True if the case fails with the new runtime, or is faster or slower than with the old one."""
        return self.failure is not None or self.comparison.verdict in ("faster", "slower")

    @property
    def change(self) -> str:
        return self.comparison.change if self.failure is None else self.failure


@dataclass(frozen=True)
class Judgement:
    """The answer to the question whether two runtimes are equally fast on a device."""

    old: str
    """The version of the old runtime, which made the measurements that may be reused."""
    new: str
    device: str
    """The device's URI."""
    run: str
    """The name of the run that measured the controls."""
    at: float
    """The time of the judgement, in seconds since the epoch."""
    controls: tuple[Control, ...]

    @cached_property  # read for each case
    def moved(self) -> bool:
        return any(control.moved for control in self.controls)

    @cached_property
    def unknown(self) -> bool:
        """True if all comparisons are undecided and no control failed with the new runtime.

        A control failed if the case cannot be measured with the new runtime, or gives wrong results."""
        return not self.moved and all(control.comparison.verdict == "undecided" for control in self.controls)

    @cached_property
    def unsound(self) -> bool:
        """True if the new runtime gives wrong results for one of the controls."""
        return any((control.failure or "").startswith(UNSOUND) for control in self.controls)

    @property
    def verdict(self) -> str:
        return "moved" if self.moved else "unknown" if self.unknown else "held"

    @property
    def has_few_controls(self) -> bool:
        """True if there are so few controls that more of them could change the verdict."""
        return not self.moved and (self.unknown or len(self.controls) < CONTROLS)

    def should_be_repeated(self, controls: int, run: str) -> bool:
        """Return whether the run with the name `run` should compare the two runtimes again.

        `controls` is the number of cases that this run can measure for the comparison."""
        return (self.unknown and self.run != run) or controls > len(self.controls)

    @property
    def largest(self) -> Control:
        """The control that changed most with the new runtime.

        A failure outweighs the verdicts `faster` and `slower`, which outweigh all other verdicts. If several controls
        are equal in this, the control whose time changed by the largest factor is chosen."""
        return max(self.controls, key=lambda c: (c.moved, c.failure is not None, abs(log(c.comparison.ratio))))

    @property
    def pair(self) -> str:
        return f"{self.old} → {self.new} on {self.device}"

    @cached_property
    def text(self) -> str:
        """The judgement as one line of text."""
        largest = self.largest
        if self.moved:
            return f"runtime moved: {self.pair}: {largest.case} {largest.change}"
        words = [f"largest change {largest.change}"]
        if undecided := sum(control.comparison.verdict == "undecided" for control in self.controls):
            words.append(f"{undecided} undecided")
        if not all(control.together for control in self.controls):
            words.append("compared with recorded blocks: the old runtime is not available")
        count, verdict = len(self.controls), "unknown" if self.unknown else "held"
        return f"runtime {self.pair}: {count} control{'s' * (count > 1)}, {verdict} ({'; '.join(words)})"

    def json(self) -> str:
        return json.dumps(asdict(self) | {"verdict": self.verdict})


def from_json(text: str) -> Judgement:
    fields = json.loads(text)
    del fields["verdict"]
    controls = fields.pop("controls")
    return Judgement(**fields, controls=tuple(map(_control, controls)))


def _control(fields: dict[str, Any]) -> Control:
    sides = {side: tuple(fields[side]) for side in ("old_ns", "new_ns")}
    return Control(**fields | sides | {"comparison": Comparison(**fields["comparison"])})


def name(one: str, other: str, device: Mapping[str, Any]) -> str:
    """Return the name under which the judgement on two runtimes is stored.

    `one` and `other` are the digests of the runtimes, in any order. `device` has the values that identify the device.
    """
    return f"runtimes:{key_of('runtimes', {'runtimes': tuple(sorted((one, other))), 'device': device})}"
