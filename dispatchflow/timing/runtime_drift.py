"""Two runtimes on one device: held, or moved? What was found with controls, as `measurement/controls.py` chooses them.

No key has the runtime's version in it, so what one runtime measured is reused with another, as long as a few
unchanged cases take as long with both (docs/upgrades.md).
"""

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
"""After the first ones a control that is the same is done. A look that may find that it moved is a chance of a false
alarm, so after the first ones it takes `FIRST_CONFIDENCE`: every round says so."""

FIRST_CONFIDENCE = 0.9998

FLOOR = 0.02
"""For what stays with one side through all rounds: the memory pages of its program, the length of its path."""

UNSOUND = "verification failed: "
"""How the failure of a control begins that gives other results."""

FLOOR_APART = 0.1
"""Against recorded blocks: between two sessions the machine itself drifts."""


@dataclass(frozen=True, slots=True)
class Control:
    """One case with both runtimes, block by block in ns. `together`: in the same rounds; else `old_ns` are the blocks
    that were recorded. `failure`: why the new runtime cannot run it."""

    case: str
    together: bool
    comparison: Comparison
    failure: str | None
    old_ns: tuple[float, ...]
    new_ns: tuple[float, ...]

    @property
    def moved(self) -> bool:
        return self.failure is not None or self.comparison.verdict in ("faster", "slower")

    @property
    def change(self) -> str:
        return self.comparison.change if self.failure is None else self.failure


@dataclass(frozen=True)
class Judgement:
    """`old` and `new` are the runtimes' versions, `device` its URI. It holds both ways."""

    old: str
    new: str
    device: str
    run: str
    at: float
    controls: tuple[Control, ...]

    @cached_property  # asked for each case
    def moved(self) -> bool:
        return any(control.moved for control in self.controls)

    @cached_property
    def unknown(self) -> bool:
        """Nothing was found, neither that it moved nor that one control is the same: the machine was too noisy."""
        return not self.moved and all(control.comparison.verdict == "undecided" for control in self.controls)

    @cached_property
    def unsound(self) -> bool:
        """A control's results are not right with one of the runtimes: what was verified with the other says nothing."""
        return any((control.failure or "").startswith(UNSOUND) for control in self.controls)

    @property
    def verdict(self) -> str:
        return "moved" if self.moved else "unknown" if self.unknown else "held"

    @property
    def has_few_controls(self) -> bool:
        """It held, as far as fewer controls than wanted can tell; or nobody knows."""
        return not self.moved and (self.unknown or len(self.controls) < CONTROLS)

    def should_be_repeated(self, controls: int, run: str) -> bool:
        """Whether this run, which has so many controls, is to find out more."""
        return (self.unknown and self.run != run) or controls > len(self.controls)

    @property
    def largest(self) -> Control:
        """The control that says most."""
        return max(self.controls, key=lambda c: (c.moved, c.failure is not None, abs(log(c.comparison.ratio))))

    @property
    def pair(self) -> str:
        return f"{self.old} → {self.new} on {self.device}"

    @cached_property
    def text(self) -> str:
        """In one line, as it is printed."""
        largest = self.largest
        if self.moved:
            return f"runtime moved: {self.pair}: {largest.case} {largest.change}"
        words = [f"largest change {largest.change}"]
        if undecided := sum(control.comparison.verdict == "undecided" for control in self.controls):
            words.append(f"{undecided} undecided")
        if not all(control.together for control in self.controls):
            words.append("against the recorded blocks: the old runtime is not at hand")
        count, verdict = len(self.controls), "not known" if self.unknown else "held"
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
    """Of the judgement on two runtimes' digests, whichever is the newer, on a device of this identity."""
    return f"runtimes:{key_of('runtimes', {'runtimes': tuple(sorted((one, other))), 'device': device})}"
