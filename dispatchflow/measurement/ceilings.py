"""Measure calibration kernels and record their highest rates.

A calibration kernel only computes or only moves data. Its highest rate is a ceiling: a case that computes or moves data
in the same way cannot be faster."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any

from dispatchflow.cases.amounts import traffic_bytes
from dispatchflow.cases.case import Case
from dispatchflow.cases.rotating_inputs import COLD
from dispatchflow.engine.actions import Action, Call, Data, measurement
from dispatchflow.engine.stages import StageExecutor
from dispatchflow.iree.targets import TARGETS, Device, Target
from dispatchflow.iree.toolchain import Toolchain
from dispatchflow.keys import digest_of, key_of
from dispatchflow.measurement import calibration
from dispatchflow.measurement.calibration import Kernel, Processor, Work
from dispatchflow.measurement.session import Session
from dispatchflow.measurement.trials import Trial
from dispatchflow.mlir.types import ELEMENT_TYPES, Signature
from dispatchflow.models.site import Program, Site
from dispatchflow.operations import Operation
from dispatchflow.store.entries import Record
from dispatchflow.store.machine_facts import MachineFacts
from dispatchflow.store.store import Store
from dispatchflow.timing.protocols import Protocol
from dispatchflow.tools import machine
from dispatchflow.workload import ENTRY

_PROTOCOL = Protocol("calibration", 1, warmup_s=0.05, block_s=0.05, blocks=3, span_s=0.0, budget_s=10.0)


class _KernelTrial(Trial):
    what = "calibration kernel"


def _calibrated(target: Target) -> Target:
    # All targets of this CPU have the ceilings of llvm-cpu.
    return TARGETS["llvm-cpu"] if target.has_threads else target


def work_of(case: Case) -> Work | None:
    """Return the element types and memory traffic of a case.

    Returns None if they are unknown, for example for a user's own module."""
    program = case.operation
    if not isinstance(program, Operation) or (moved_bytes := traffic_bytes(program)) is None:
        return None
    return Work(program.signature, moved_bytes, program.read_bytes(), case.cache == COLD)


def work_of_site(site: Site) -> Work | None:
    """Return the element types and memory traffic of one launch of a dispatch at `site`.

    Returns None if the traffic is unknown."""
    if site.traffic_bytes is None:
        return None
    found = [element for name in site.elements if (element := ELEMENT_TYPES.get(name)) and element.is_float]
    if not found or len(found) < len(site.elements):
        return Work(None, site.traffic_bytes, 0)
    narrowest = min(found, key=lambda element: element.bits)  # the fastest of several types is a bound for all
    return Work(Signature(tuple(found), narrowest, narrowest), site.traffic_bytes, 0)


def _highest(text: str | None, rates: Mapping[str, float]) -> dict[str, float]:
    """Combine two dicts of rates; keep the higher rate of each kind of calibration kernel.

    `text` is one of the dicts as JSON. None stands for an empty dict."""
    known: dict[str, float] = json.loads(text or "{}")
    return known | {kind: max(rate, known.get(kind, 0.0)) for kind, rate in rates.items()}


def _highest_json(text: str | None, rates: Mapping[str, float]) -> str:
    return json.dumps(_highest(text, rates))


class Ceilings:
    """The ceilings of this machine.

    Each ceiling is the maximum of the rates that all projects of the user have recorded."""

    def __init__(self, store: Store, facts: MachineFacts, toolchain: Toolchain, executor: StageExecutor) -> None:
        self._store, self._facts, self._toolchain, self._executor = store, facts, toolchain, executor
        self._known: dict[tuple[str, int], dict[str, float]] = {}
        self._reached: dict[tuple[str, int], dict[str, float]] = {}
        self._processors: dict[str, Processor] = {}

    def of(self, case: Case, device: Device) -> tuple[float | None, float | None]:
        """Return the rates that a case cannot exceed: (flops per s, bytes per s). An unknown rate is None."""
        return self._of(work_of(case), case.target, device)

    def of_sites(
        self, program: Program, target: Target, device: Device
    ) -> dict[int, tuple[float | None, float | None]]:
        """Return a dict from the number of each site to the rates that the site cannot exceed.

        A site is a place in the program that launches a dispatch. The rates are (flops per s, bytes per s). An unknown
        rate is None."""
        return {site.number: self._of(work_of_site(site), target, device) for site in program.sites}

    def _of(self, work: Work | None, target: Target, device: Device) -> tuple[float | None, float | None]:
        if work is None:
            return None, None
        return calibration.ceilings(self._highest_rates(target, device), work, self._processor(target))

    def kinds(self, case: Case) -> tuple[str, ...]:
        """Return the kinds of calibration kernels, such as `f32` and `memory`, whose rates limit a case."""
        work = work_of(case)
        return work.kinds(self._processor(case.target)) if work else ()

    def kinds_of_sites(self, sites: Iterable[Site], target: Target) -> tuple[str, ...]:
        """Return the kinds of calibration kernels whose rates limit the dispatches at `sites`.

        The result may contain a kind several times."""
        processor = self._processor(target)
        return tuple(kind for site in sites if (work := work_of_site(site)) for kind in work.kinds(processor))

    def compilations(self, target: Target) -> list[Action]:
        """Return the actions (steps of the work) that compile the calibration kernels for a target."""
        flags = self._flags(target)
        return [
            self._executor.resolver.compilation(digest_of(kernel.module.encode()), flags)
            for kernel in self.kernels(target)
        ]

    def _flags(self, target: Target) -> tuple[str, ...]:
        resolver = self._executor.resolver
        return _calibrated(target).resolved_flags(resolver.host, resolver.syntax)

    def _processor(self, target: Target) -> Processor:
        if target.name not in self._processors:
            found = calibration.processor(target, machine.cpu().flags, machine.last_level_cache_bytes())
            self._processors[target.name] = found
        return self._processors[target.name]

    def kernels(self, target: Target) -> tuple[Kernel, ...]:
        return calibration.kernels(self._processor(target), machine.memory_bytes())

    def name(self, target: Target, device: Device) -> str:
        """Return the name under which the calibration kernels' rates on a device are recorded."""
        modules = digest_of("".join(kernel.module for kernel in self.kernels(target)).encode())
        ingredients: dict[str, Any] = {"modules": modules}
        if target.has_threads:
            processor = machine.cpu()
            ingredients |= {"cpu": processor.model, "flags": processor.flags, "threads": device.threads}
        else:
            ingredients |= {"target": target.name, "device": device.digest}
        return f"ceilings:{key_of('ceilings', ingredients)}"

    @staticmethod
    def place(target: Target, device: Device) -> tuple[str, int]:
        """Return a pair that identifies the ceilings of a target and a device."""
        return _calibrated(target).name, device.threads

    def _rates(self, target: Target, device: Device) -> dict[str, float]:
        """Return a dict from each kind of calibration kernel to its highest recorded rate.

        Only rates that were measured with exactly the device's number of threads are considered."""
        if (place := self.place(target, device)) not in self._known:
            name = self.name(target, device)
            own, everyones = self._store.records.remembered(name), self._facts.remembered(name)
            self._known[place] = _highest(own, json.loads(everyones or "{}"))
        return self._known[place]

    def _highest_rates(self, target: Target, device: Device) -> dict[str, float]:
        """Return a dict from each kind of calibration kernel to its highest recorded rate.

        Rates that were measured with the device's number of threads, or with fewer threads, are considered."""
        # More threads are no slower.
        if (place := self.place(target, device)) not in self._reached:
            most = dict(self._rates(target, device))
            for fewer in self._with_fewer_threads(target, device):
                for kind, rate in self._rates(target, fewer).items():
                    most[kind] = max(most.get(kind, 0.0), rate)
            self._reached[place] = most
        return self._reached[place]

    @staticmethod
    def _with_fewer_threads(target: Target, device: Device) -> list[Device]:
        return [replace(device, threads=n) for n in range(1, device.threads if target.has_threads else 1)]

    def copy_to_store(self, target: Target, device: Device) -> None:
        """Copy the calibration kernels' highest rates from the user's cache directory to this project's store.

        All projects of the user share the cache directory. If the directory is lost, the rows of this project keep
        their ceilings."""
        for one in (device, *self._with_fewer_threads(target, device)):
            name, rates = self.name(target, one), self._rates(target, one)
            if rates != json.loads(self._store.records.remembered(name) or "{}"):
                self._store.records.revise(name, partial(_highest_json, rates=rates))

    def missing(self, target: Target, device: Device, kinds: Iterable[str]) -> list[str]:
        """Return the kinds of calibration kernels in `kinds` that have no recorded rate.

        Kinds without a kernel for the target are left out."""
        known = {kernel.kind for kernel in self.kernels(target)} - set(self._rates(target, device))
        return [kind for kind in dict.fromkeys(kinds) if kind in known]

    def calibrate(
        self, target: Target, device: Device, session: Session, kinds: Collection[str], spare: bool = False
    ) -> None:
        """Measure calibration kernels of the given kinds, and record the highest rates.

        If `spare` is true, spare kernels (see `Kernel.spare`) are measured too."""
        device = self.calibrated(target, device)
        wanted = [kernel for kernel in self.kernels(target) if kernel.kind in kinds and spare >= kernel.spare]
        rates, enough = dict[str, float](), set[str]()
        for _, larger in groupby(sorted(wanted, key=lambda kernel: kernel.growth), lambda kernel: kernel.growth):
            lacking = [kernel for kernel in larger if kernel.kind not in enough]
            trials = [(kernel, trial) for kernel in lacking if (trial := self._trial(kernel, target, device, session))]
            for kernel, trial in trials:
                session.measure_until_decided(trial)
                if trial.blocks_ns:
                    ns = min(trial.blocks_ns)
                    rates[kernel.kind] = max(rates.get(kernel.kind, 0.0), kernel.work / ns * 1e9)
                    enough |= {kernel.kind} if ns > calibration.ENOUGH_NS else set()
        self._known[self.place(target, device)] = self._remember(self.name(target, device), rates)
        self._reached.clear()

    def _remember(self, name: str, rates: Mapping[str, float]) -> dict[str, float]:
        """Record each rate that is higher than the recorded rate of its kind. Return the highest rates.

        `rates` is a dict from a kind of calibration kernel to its rate. The result includes rates that another run
        recorded meanwhile."""
        raised = partial(_highest_json, rates=rates)
        everyones = json.loads(self._facts.revise(name, raised) or "{}")
        return _highest(self._store.records.revise(name, raised), everyones)

    @staticmethod
    def calibrated(target: Target, device: Device) -> Device:
        """Return the device for the calibration kernels of a target.

        For a CPU target, this is the device of llvm-cpu."""
        if not target.has_threads:
            return device
        return Device(TARGETS["llvm-cpu"].device(device.threads), device.threads, device.cpus, device.identity)

    def compiled(self, kernel: Kernel, target: Target) -> Record:
        return self._executor.compile_module(kernel.module.encode(), self._flags(target))

    def _trial(self, kernel: Kernel, target: Target, device: Device, session: Session) -> Trial | None:
        compiled = self.compiled(kernel, target)
        if not compiled.ok:
            return None
        ones = f"{kernel.input.spelling}=1"
        call = Call(compiled.facts["code_digest"], ENTRY, device)
        action = measurement(call, Data({}, (f"={ones}",)), _PROTOCOL)
        return session.add(
            _KernelTrial(
                action.key,
                f"calibration:{kernel.name}",
                {"module.vmfb": compiled.outputs["vmfb"]},
                (ones,),
                device,
                action.ingredients,
                _PROTOCOL,
            )
        )
