"""Measures the anchors in the rounds of a session, and remembers what they took."""

from __future__ import annotations

from dataclasses import dataclass

from dispatchflow import anchors
from dispatchflow.anchors import History, Moment
from dispatchflow.ceilings import Ceilings
from dispatchflow.execute import Executor
from dispatchflow.keys import Digest, Ingredient, key_of
from dispatchflow.measure import Trial
from dispatchflow.records import Records
from dispatchflow.store import DamagedObject, Store
from dispatchflow.targets import Device, Target


class AnchorTrial(Trial):
    what = "anchor"
    longest_s = 30.0  # a tool that hangs is to keep nobody waiting twice


@dataclass
class Place:
    """The anchors of a device with a number of threads, in one session; none where none can be run."""

    name: str
    records: Records
    run: str
    trials: list[AnchorTrial]

    def failed(self, trial: Trial) -> None:
        """It is left out of this session. If it would fail again, the next one begins a history with anchors that run:
        this runtime does not take the modules of the compiler that came first."""
        if trial in self.trials:
            self.trials = [other for other in self.trials if other is not trial]
            if trial.failure.get("repeatable") and "limit" not in trial.failure:
                self.records.remember(self.name, History().json())

    def marks(self) -> dict[str, int]:
        """How many blocks of each there are by now."""
        return {trial.label: len(trial.blocks_ns) for trial in self.trials}

    def moment(self, since: dict[str, int]) -> tuple[Moment, dict[str, list[float]]]:
        """What the blocks since then say, and these. The session so far becomes part of the machine's history."""
        whole = {trial.label: trial.blocks_ns for trial in self.trials}
        text = self.records.revise(self.name, lambda known: History.of(known).seen(self.run, whole).json())
        found = {trial.label: trial.blocks_ns[since.get(trial.label, 0) :] for trial in self.trials}
        return History.of(text).moment(found), found


class Anchors:
    """Of one invocation: a place for each number of threads of this CPU, and for each other target."""

    def __init__(self, store: Store, executor: Executor, ceilings: Ceilings, run: str) -> None:
        self._store, self._executor, self._ceilings, self._run = store, executor, ceilings, run
        self._places: dict[tuple[str, int], Place] = {}

    def of(self, target: Target, device: Device) -> Place:
        """`device`: a library's too, whose processor IREE runs on as well."""
        at = self._ceilings.place(target, device)
        if at not in self._places:
            self._places[at] = self._made(target, device)
        return self._places[at]

    def _made(self, target: Target, device: Device) -> Place:
        device = self._ceilings.calibrated(target, device)
        kernels = anchors.chosen(self._ceilings.kernels(target))
        ingredients: dict[str, Ingredient] = {
            "machine": self._ceilings.name(target, device),
            "kernels": tuple(k.name for k in kernels),
        }
        name = f"anchors:{key_of('anchors', ingredients)}"
        records = self._store.records
        history = History.of(records.remembered(name))
        objects = {label: Digest(digest) for label, digest in history.objects.items() if self._whole(Digest(digest))}
        if not objects or len(objects) < len(history.objects):
            compiled = {kernel.name: self._ceilings.compiled(kernel, target) for kernel in kernels}
            objects = {label: record.outputs["vmfb"] for label, record in compiled.items() if record.ok}
            if objects != history.objects:
                records.remember(name, History(objects).json())
        trials = [
            AnchorTrial(
                key_of("anchor", {"module": objects[kernel.name]}),
                kernel.name,
                {"module.vmfb": objects[kernel.name]},
                (f"{kernel.input.spelling}=1",),
                device,
                {},
                anchors.PROTOCOL,
            )
            for kernel in kernels
            if kernel.name in objects
        ]
        return Place(name, records, self._run, trials)

    def _whole(self, digest: Digest) -> bool:
        try:
            self._store.checked(digest)
        except DamagedObject:
            return False
        return True
