"""Measure the anchors together with the cases of a run.

Anchors are two kernels that never change. Their times show the speed of the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log

from dispatchflow.engine.stages import StageExecutor
from dispatchflow.iree.targets import Device, Target
from dispatchflow.keys import Digest, Ingredient, Key, key_of
from dispatchflow.measurement import anchors
from dispatchflow.measurement.anchors import History, Moment
from dispatchflow.measurement.calibration import Kernel
from dispatchflow.measurement.ceilings import Ceilings
from dispatchflow.measurement.trials import Trial
from dispatchflow.store.entries import Record
from dispatchflow.store.machine_facts import MachineFacts
from dispatchflow.store.records import Records
from dispatchflow.store.store import DamagedObject, Store
from dispatchflow.timing.protocols import shortened
from dispatchflow.timing.sensitivity import Felt
from dispatchflow.timing.statistics import disturbed, median


class AnchorTrial(Trial):
    what = "anchor"
    longest_s = 30.0  # a tool that hangs should not take the user's full limit for the anchors, and again for the cases


@dataclass
class AnchorSet:
    """The anchor kernels that one run measures on one device with one number of threads."""

    name: str
    """The name under which the history of the kernels' times is recorded."""
    records: Records
    facts: MachineFacts | None
    """The user's records about this machine, which contain the anchors' times that all projects share.

    None if this project does not use the shared times."""
    objects: Mapping[str, str]
    """A dict from each anchor kernel's name to the digest of its compiled module."""
    run: str
    trials: list[AnchorTrial]
    felt: Felt | None = None
    """How strongly each case's time follows the anchors' times. None before the first call of `moment`."""

    def failed(self, trial: Trial) -> None:
        """Remove an anchor kernel from this run, because its measurement failed.

        A failure at a limit on time or memory has no other effect. Any other repeatable failure also deletes the times
        of all anchors in this set from this project's store."""
        # This runtime then cannot run a module that an older compiler built. The next session compiles the anchors
        # again, and begins a history that other projects do not share.
        if trial in self.trials:
            self.trials = [other for other in self.trials if other is not trial]
            if trial.failure.get("repeatable") and "limit" not in trial.failure:
                self.facts, self.objects = None, {}
                self.records.remember(self.name, History().json())

    def marks(self) -> dict[str, int]:
        """Return a dict from each anchor kernel's name to the number of its benchmark processes so far."""
        return {trial.label: len(trial.blocks_ns) for trial in self.trials}

    def moment(
        self, key: Key, since: dict[str, int], blocks_ns: Sequence[float]
    ) -> tuple[Moment, dict[str, list[float]]]:
        """Return the machine's speed during a case's measurement, and the anchors' times (ns).

        `since` is what `marks` returned when the case's measurement began. Times that were measured earlier are not
        returned."""
        # A disturbed session, perhaps ten times slower than the others, would widen the intervals in the next 63: the
        # history keeps 64 sessions.
        crowded = any(disturbed(trial.disturbed_blocks, len(trial.waits)) for trial in self.trials)
        whole = {} if crowded else {trial.label: trial.blocks_ns for trial in self.trials}
        own = self.records.remembered(self.name)

        def seen(text: str | None) -> str:
            known = History.of(text or own)  # the shared history may have been lost
            return known.with_session(self.run, whole).json() if known.objects == self.objects else known.json()

        text = self.facts.revise(self.name, seen) if self.facts else None
        history = History.of(text)
        if text is None or history.objects != self.objects:  # another run began a new history
            self.facts = None
            text = self.records.revise(self.name, lambda known: History.of(known).with_session(self.run, whole).json())
            history = History.of(text)
        else:
            self.records.remember(self.name, text)
        found = {trial.label: trial.blocks_ns[since.get(trial.label, 0) :] for trial in self.trials}
        if self.felt is None:
            reference_ns = [ns for _, ns in sorted(history.reference_ns.items())]
            earlier = (
                (measured, log(moment["factor"]), log(median_ns))
                for measured, median_ns, moment in self.records.medians_with_sessions()
                # Factors can be compared only if they are relative to the same times of the anchors.
                if moment["factor"] and moment["reference_ns"] == reference_ns
            )
            self.felt = Felt(earlier, history.prior)
        factor = history.factor(found)
        now = (log(factor), log(median(blocks_ns))) if factor and blocks_ns else None
        return history.moment(found, self.felt.by(key, now)), found


class Anchors:
    """The anchor kernels of one run: one set for each number of CPU threads, and one for each GPU target."""

    def __init__(
        self, store: Store, facts: MachineFacts, executor: StageExecutor, ceilings: Ceilings, run: str
    ) -> None:
        self._store, self._facts, self._executor = store, facts, executor
        self._ceilings, self._run = ceilings, run
        self._places: dict[tuple[str, int], AnchorSet] = {}

    def of(self, target: Target, device: Device) -> AnchorSet:
        """Return the anchor kernels that show the speed of a device.

        IREE and libraries such as numpy share the anchors of a processor."""
        at = self._ceilings.place(target, device)
        if at not in self._places:
            self._places[at] = self._anchor_set(target, device)
        return self._places[at]

    def _anchor_set(self, target: Target, device: Device) -> AnchorSet:
        device = self._ceilings.calibrated(target, device)
        kernels = anchors.chosen(self._ceilings.kernels(target))
        ingredients: dict[str, Ingredient] = {
            "machine": self._ceilings.name(target, device),
            "kernels": tuple(k.name for k in kernels),
        }
        name = f"anchors:{key_of('anchors', ingredients)}"
        objects, facts = self._modules_and_history(name, kernels, target)
        pauses = self._executor.resolver.settings.protocol.pauses
        protocol = anchors.PROTOCOL if pauses else shortened(anchors.PROTOCOL)
        trials = [
            AnchorTrial(
                key_of("anchor", {"module": objects[kernel.name]}),
                kernel.name,
                {"module.vmfb": objects[kernel.name]},
                (f"{kernel.input.spelling}=1",),
                device,
                {},
                protocol,
            )
            for kernel in kernels
            if kernel.name in objects
        ]
        return AnchorSet(name, self._store.records, facts, objects, self._run, trials)

    def _modules_and_history(
        self, name: str, kernels: Sequence[Kernel], target: Target
    ) -> tuple[Mapping[str, Digest], MachineFacts | None]:
        """Return the fields `objects` and `facts` of an `AnchorSet`."""
        records, facts = self._store.records, self._facts
        text, machines = records.remembered(name), History.of(facts.remembered(name))
        own = History.of(text)
        # All projects share one history. A project whose own history begins differently uses only its own.
        together = text is None or not machines.objects or own.begins_as(machines)
        history = machines if together and machines.objects else own
        kept = {label: Digest(digest) for label, digest in history.objects.items()}
        objects = {label: digest for label, digest in kept.items() if self._is_available(digest)}
        if not objects or len(objects) < len(history.objects):
            compiled = {kernel.name: self._ceilings.compiled(kernel, target) for kernel in kernels}
            objects = {label: record.outputs["vmfb"] for label, record in compiled.items() if record.ok}
            if objects != history.objects:
                history = History(objects)
        for digest in objects.values():
            # Other projects of the user then measure the same compiled modules.
            facts.keep(digest, self._store.path(digest))

        def continued(text: str | None) -> str:
            # `history` replaces an empty history, and one with a missing module. A history that another run began
            # meanwhile stays.
            found = History.of(text)
            replaced = found.objects in ({}, machines.objects) and found.objects != objects
            return (history if replaced else found).json()

        if together and objects:
            found = History.of(facts.revise(name, continued))
            together = found.begins_as(history) or (found.objects == objects and not history.reference_ns)
            history = found if together else history
        if history != own:
            records.remember(name, history.json())
        return objects, facts if together else None

    def _is_available(self, digest: Digest) -> bool:
        """Return whether the store has a module.

        If possible, a missing module is first copied from the files that all projects of the user share."""
        try:
            self._store.checked(digest)
        except DamagedObject:
            if (content := self._facts.object(digest)) is None:
                return False
            self._store.put_bytes(content)
            key = key_of("anchor module", {"module": digest})
            self._store.records.add(Record(key, "anchor", True, None, {"vmfb": digest}, {}, {}, 0.0, self._run))
        return True
