"""Decide whether a measurement that another runtime made counts for the present runtime too.

The decision uses a judgement: a recorded comparison of the two runtimes (`timing.runtime_drift`). For the
comparison, the same compiled code of a few cases is timed with both runtimes. These cases are called controls."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dispatchflow.iree.targets import Device
from dispatchflow.keys import Digest
from dispatchflow.timing import runtime_drift
from dispatchflow.timing.runtime_drift import Judgement

if TYPE_CHECKING:
    from dispatchflow.store.entries import Measurement


class Reuse:
    """Decides which measurements count for this machine and the present runtime."""

    def __init__(self, remembered: Callable[[str], str | None], runtime: Digest, machine: str | None) -> None:
        self._remembered, self._runtime, self._machine = remembered, runtime, machine
        self._judgements: dict[tuple[str, str], Judgement | None] = {}

    def forget(self) -> None:
        self._judgements.clear()

    def judged(self, taken: Measurement, device: Device) -> Judgement | None:
        """Return the recorded comparison between the present runtime and the runtime that made a measurement.

        If the present runtime gave wrong results in any comparison, returns that comparison. Returns None if the two
        runtimes were not compared on this device."""
        place = (str(taken.runtime), device.uri)
        if place not in self._judgements:
            # A runtime with wrong results is recorded as compared with itself: no other runtime's times count for it.
            names = (runtime_drift.name(one, self._runtime, device.identity) for one in (self._runtime, place[0]))
            text = next(filter(None, map(self._remembered, names)), None)
            self._judgements[place] = runtime_drift.from_json(text) if text else None
        return self._judgements[place]

    def refusal(self, taken: Measurement, device: Device) -> str | None:
        """Return why a measurement does not count for this machine and runtime; None if it counts."""
        if taken.machine not in (None, self._machine):
            return f"measured on another machine, {taken.conditions.get('host')}"
        if not self.foreign(taken):
            return None
        if taken.status == "failed":
            return "another runtime failed to measure it"
        judgement = self.judged(taken, device)
        return judgement.text if judgement is not None and judgement.moved else None

    def foreign(self, taken: Measurement) -> bool:
        return taken.runtime not in (None, self._runtime)

    def doubts(self, found: Measurement, device: Device) -> list[str]:
        if not self.foreign(found):
            return []
        judgement = self.judged(found, device)
        if judgement is None:
            return ["runtime not verified: another runtime measured this, and no control was run with the present one"]
        return [f"unknown whether the runtime moved: {judgement.text}"] if judgement.unknown else []

    def whose(self, found: Measurement, device: Device) -> str:
        if not self.foreign(found):
            return ""
        judgement = self.judged(found, device)
        return f", from another runtime: {judgement.text if judgement else 'no control was measured yet'}"

    def reason_to_verify_again(self, measured_now: bool, newest: Measurement | None, device: Device) -> str | None:
        """Return why the present runtime must repeat another runtime's verification; None if it need not.

        `measured_now` says whether the present runtime is about to measure the code. `newest` is the newest measurement
        of the code; None if the code was never measured."""
        if measured_now:
            return "another runtime verified it; the runtime that measures it verifies it too"
        if newest is None or not self.foreign(newest):
            return None
        judgement = self.judged(newest, device)
        return (
            "another runtime verified it, and one of the two runtimes is wrong"
            if judgement and judgement.unsound
            else None
        )
