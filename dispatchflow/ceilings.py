"""Measures the calibration kernels in a session's first rounds, and remembers what they reached."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from dispatchflow import calibration, machine
from dispatchflow.actions import Call, Data, measurement
from dispatchflow.execute import Executor
from dispatchflow.keys import digest_of, key_of
from dispatchflow.measure import Session, Trial
from dispatchflow.program import ENTRY
from dispatchflow.protocols import Protocol
from dispatchflow.store import Store
from dispatchflow.targets import Device
from dispatchflow.toolchain import Toolchain

_PROTOCOL = Protocol(
    "calibration", 1, warmup_s=0.05, block_s=0.05, min_blocks=3, max_blocks=3, budget_s=10.0, precision=0.0
)


class Ceilings:
    """Per number of threads: kind → flops or bytes per s, of the fastest block ever recorded."""

    def __init__(self, store: Store, toolchain: Toolchain, executor: Executor, flags: Sequence[str]) -> None:
        self._store, self._toolchain, self._executor, self._flags = store, toolchain, executor, flags
        self._known: dict[int, dict[str, float]] = {}

    def _name(self, device: Device) -> str:
        processor = machine.cpu()
        modules = digest_of("".join(kernel.module for kernel in self._kernels()).encode())
        ingredients: dict[str, Any] = {
            "cpu": processor.model,
            "flags": processor.flags,
            "threads": device.threads,
            "modules": modules,
        }
        return f"ceilings:{key_of('ceilings', ingredients)}"

    def _kernels(self) -> tuple[calibration.Kernel, ...]:
        return calibration.kernels(machine.cpu().flags, machine.last_level_cache_bytes(), machine.memory_bytes())

    def rates(self, device: Device) -> dict[str, float]:
        """What was reached so far; empty when never calibrated."""
        if device.threads not in self._known:
            self._known[device.threads] = json.loads(self._store.records.remembered(self._name(device)) or "{}")
        return self._known[device.threads]

    def lacking(self, device: Device, kinds: Iterable[str]) -> list[str]:
        """Those of these kinds that were never measured, and can be."""
        known = {kernel.kind for kernel in self._kernels()} - set(self.rates(device))
        return [kind for kind in dict.fromkeys(kinds) if kind in known]

    def calibrate(self, device: Device, session: Session, kinds: Collection[str], spare: bool = False) -> None:
        """Once more; the highest ever stands. A kernel that does not compile or run here leaves its ceiling unknown."""
        plain = Device(
            "local-sync" if device.threads == 1 else "local-task", device.threads, device.cpus, device.identity
        )
        wanted = [kernel for kernel in self._kernels() if kernel.kind in kinds and spare >= kernel.spare]
        trials = [(kernel, trial) for kernel in wanted if (trial := self._trial(kernel, plain, session))]
        rates = dict(self.rates(device))
        for kernel, trial in trials:
            session.decide(trial)
            if trial.blocks_ns:
                rates[kernel.kind] = max(rates.get(kernel.kind, 0.0), kernel.work / min(trial.blocks_ns) * 1e9)
        self._store.records.remember(self._name(device), json.dumps(rates))
        self._known[device.threads] = rates

    def _trial(self, kernel: calibration.Kernel, device: Device, session: Session) -> Trial | None:
        compiled = self._executor.compile_module(kernel.module.encode(), self._flags)
        if not compiled.ok:
            return None
        ones = f"{kernel.input.spelling}=1"
        call = Call(compiled.facts["code_digest"], ENTRY, device)
        action = measurement(call, Data({}, (f"={ones}",)), _PROTOCOL)
        return session.add(
            Trial(
                action.key,
                f"calibration:{kernel.name}",
                {"module.vmfb": compiled.outputs["vmfb"]},
                (ones,),
                device,
                action.ingredients,
                _PROTOCOL,
            )
        )
