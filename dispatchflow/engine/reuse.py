"""Whether what another runtime measured counts with the present one, by the judgements on the two."""

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
    """What this machine and this runtime take of other ones. Judgements that were looked up are kept."""

    def __init__(self, remembered: Callable[[str], str | None], runtime: Digest, machine: str | None) -> None:
        self._remembered, self._runtime, self._machine = remembered, runtime, machine
        self._judgements: dict[tuple[str, str], Judgement | None] = {}

    def forget(self) -> None:
        """A new judgement was recorded."""
        self._judgements.clear()

    def judged(self, taken: Measurement, device: Device) -> Judgement | None:
        """On the runtime that took this measurement and the present one; None while there is none."""
        place = (str(taken.runtime), device.uri)
        if place not in self._judgements:
            text = self._remembered(runtime_drift.name(place[0], self._runtime, device.identity))
            self._judgements[place] = runtime_drift.from_json(text) if text else None
        return self._judgements[place]

    def refusal(self, taken: Measurement, device: Device) -> str | None:
        """Why this measurement does not count here and with the present runtime, None when it does."""
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
            return ["runtime not verified: another one ran this, and no control was run with the present one"]
        return [f"not known whether the runtime moved: {judgement.text}"] if judgement.unknown else []

    def whose(self, found: Measurement, device: Device) -> str:
        if not self.foreign(found):
            return ""
        judgement = self.judged(found, device)
        return f", from another runtime: {judgement.text if judgement else 'no control was measured yet'}"

    def reason_to_verify_again(self, measured_now: bool, newest: Measurement | None, device: Device) -> str | None:
        """Why the verdict of another runtime on this code does not count, None where it does. `newest`: measurement of
        the code."""
        if measured_now:
            return "another runtime verified it, and what is measured now is verified now"
        if newest is None or not self.foreign(newest):
            return None
        judgement = self.judged(newest, device)
        return "another runtime verified it, and one of the two is wrong" if judgement and judgement.unsound else None
