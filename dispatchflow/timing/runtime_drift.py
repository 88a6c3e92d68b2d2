"""Decide from controls whether a runtime is as fast as another one on the same device.

`measurement/controls.py` chooses the controls. No key has the runtime's version in it: a measurement with one runtime
is reused with another as long as a few unchanged cases take equally long with both (docs/upgrades.md)."""

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
"""The numbers of rounds of a control: it ends after the first number if its verdict is `same`.

Each look at the data may report a false change. The look after the first number of rounds therefore needs a higher
confidence, `FIRST_CONFIDENCE`, for which all ratios must be on the same side of 1."""

FIRST_CONFIDENCE = 0.9998

FLOOR = 0.02
"""The smallest change that counts.

It covers effects that stay with one runtime for all rounds: the memory pages of its program, the length of its path."""

UNSOUND = "verification failed: "
"""The beginning of a control's `failure` if its results are wrong."""

FLOOR_APART = 0.1
"""The smallest change that counts against recorded blocks, since the machine drifts between sessions."""


@dataclass(frozen=True, slots=True)
class Control:
    """The measurement of one case with both runtimes."""

    case: str
    together: bool
    """Whether both were measured in the same rounds; otherwise `old_ns` are recorded blocks."""
    comparison: Comparison
    failure: str | None
    """The reason why the new runtime cannot run the case; None if it can."""
    old_ns: tuple[float, ...]
    """Block times in ns with the old runtime; `new_ns` are those with the new one."""
    new_ns: tuple[float, ...]

    @property
    def moved(self) -> bool:
        return self.failure is not None or self.comparison.verdict in ("faster", "slower")

    @property
    def change(self) -> str:
        return self.comparison.change if self.failure is None else self.failure


@dataclass(frozen=True)
class Judgement:
    """The judgement on two runtimes: whether a measurement with either of them counts with the other."""

    old: str
    """The version of one runtime; `new` is the version of the other."""
    new: str
    device: str
    """The device's URI."""
    run: str
    at: float
    controls: tuple[Control, ...]

    @cached_property  # read for each case
    def moved(self) -> bool:
        return any(control.moved for control in self.controls)

    @cached_property
    def unknown(self) -> bool:
        """Whether the machine was too noisy: the comparison of every control is undecided, and none failed."""
        return not self.moved and all(control.comparison.verdict == "undecided" for control in self.controls)

    @cached_property
    def unsound(self) -> bool:
        """Whether a control's results are wrong with one runtime; then the other's verdicts do not count."""
        return any((control.failure or "").startswith(UNSOUND) for control in self.controls)

    @property
    def verdict(self) -> str:
        return "moved" if self.moved else "unknown" if self.unknown else "held"

    @property
    def has_few_controls(self) -> bool:
        """Whether more controls could change the judgement: it has few controls and no drift, or is unknown."""
        return not self.moved and (self.unknown or len(self.controls) < CONTROLS)

    def should_be_repeated(self, controls: int, run: str) -> bool:
        """Return whether this run, which has this number of controls, is to repeat the judgement."""
        return (self.unknown and self.run != run) or controls > len(self.controls)

    @property
    def largest(self) -> Control:
        """The control with the largest change; one that drifted or failed comes first."""
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
    """Return the name of the judgement on two runtimes, given by digest in any order, and a device."""
    return f"runtimes:{key_of('runtimes', {'runtimes': tuple(sorted((one, other))), 'device': device})}"
