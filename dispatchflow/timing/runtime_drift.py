"""Decide whether two runtimes are equally fast on a device, from cases that were measured with both.

These cases are called controls; `measurement/controls.py` chooses and measures them. The keys of measurements do not
contain the runtime's version: a measurement with one runtime is reused with another one if the controls take equally
long with both (docs/upgrades.md)."""

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
"""A control has `FIRST_ROUNDS` rounds if its verdict is then `same`; otherwise it has `ALL_ROUNDS`.

If any control is `faster` or `slower` after `FIRST_ROUNDS`, the rounds of all controls end. This additional test could
report a false change, so it uses the higher `FIRST_CONFIDENCE`, for which all ratios must be on the same side of 1."""

FIRST_CONFIDENCE = 0.9998

FLOOR = 0.02
"""The smallest change that counts, as a fraction.

Smaller changes may come from the memory pages of one runtime's program or the length of its path, which stay the same
in all rounds."""

UNSOUND = "verification failed: "
"""The beginning of a control's `failure` if its results are wrong."""

FLOOR_APART = 0.1
"""The smallest change that counts in a comparison with recorded blocks, as a fraction.

It is larger than `FLOOR`, because the machine may have drifted since these blocks were recorded."""


@dataclass(frozen=True, slots=True)
class Control:
    """The measurement of one case with both runtimes."""

    case: str
    together: bool
    """Whether both runtimes were measured in the same rounds; if not, `old_ns` are recorded blocks."""
    comparison: Comparison
    failure: str | None
    """The reason why the new runtime cannot run the case; None if it can."""
    old_ns: tuple[float, ...]
    """The blocks' times in ns with the old runtime; `new_ns` are the times with the new runtime."""
    new_ns: tuple[float, ...]

    @property
    def moved(self) -> bool:
        """Whether the new runtime differs from the old one: it fails, or is faster or slower."""
        return self.failure is not None or self.comparison.verdict in ("faster", "slower")

    @property
    def change(self) -> str:
        return self.comparison.change if self.failure is None else self.failure


@dataclass(frozen=True)
class Judgement:
    """The judgement on two runtimes: whether measurements with one of them are valid for the other."""

    old: str
    """The version of one runtime; `new` is the version of the other."""
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
        """Whether the machine was too noisy to judge: no control failed, and all comparisons are undecided."""
        return not self.moved and all(control.comparison.verdict == "undecided" for control in self.controls)

    @cached_property
    def unsound(self) -> bool:
        """Whether a control's result is wrong with the new runtime; old verdicts then do not count."""
        return any((control.failure or "").startswith(UNSOUND) for control in self.controls)

    @property
    def verdict(self) -> str:
        return "moved" if self.moved else "unknown" if self.unknown else "held"

    @property
    def has_few_controls(self) -> bool:
        """Whether more controls could change the judgement."""
        return not self.moved and (self.unknown or len(self.controls) < CONTROLS)

    def should_be_repeated(self, controls: int, run: str) -> bool:
        """Return whether the run named `run` should judge the two runtimes again.

        `controls` is the number of controls that this run can measure."""
        return (self.unknown and self.run != run) or controls > len(self.controls)

    @property
    def largest(self) -> Control:
        """The control with the largest change: first failures, then `faster` and `slower`, then the others."""
        return max(self.controls, key=lambda c: (c.moved, c.failure is not None, abs(log(c.comparison.ratio))))

    @property
    def pair(self) -> str:
        return f"{self.old} → {self.new} on {self.device}"

    @cached_property
    def text(self) -> str:
        """The judgement in one line, for users."""
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

    `one` and `other` are the digests of the runtimes, in any order; `device` is the device's identity."""
    return f"runtimes:{key_of('runtimes', {'runtimes': tuple(sorted((one, other))), 'device': device})}"
