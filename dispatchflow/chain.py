"""Where a case stands: for each stage its key, as far as it can be known, what the store has for it, and why.

The same resolution serves planning (what is missing), doit's up-to-date question (asked again after the upstream
stages ran: only then is the code digest known, which is what early cutoff needs), explaining, and rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from dispatchflow import actions
from dispatchflow.actions import Action, Data
from dispatchflow.dispatch import Case
from dispatchflow.keys import Digest, Key
from dispatchflow.operations import Operation
from dispatchflow.protocols import Protocol
from dispatchflow.syntax import syntax_of
from dispatchflow.targets import Device, HostCpu

if TYPE_CHECKING:
    from dispatchflow.recorded import Found, Measurement, Reader, Record
    from dispatchflow.records import Records
    from dispatchflow.toolchain import Toolchain

VERIFY_MODES = ("on", "off", "warn")
_PENDING = ("missing", "later")


@dataclass(frozen=True, slots=True)
class Settings:
    """How this invocation runs its cases. `remeasure`: `yes`, `noisy`, or older than so many days."""

    protocol: Protocol
    verify: str = "on"
    remeasure: str | int | None = None
    retry: bool = False


class Step(msgspec.Struct, frozen=True):
    """One stage of one case.

    state: `made`, `missing`, `later` (its key needs an upstream output), `failed` (recorded), `blocked` (an upstream
    stage failed), `off`. Pending are `missing` and `later`.
    """

    stage: str
    state: str
    why: str
    action: Action | None = None
    record: Found | None = None
    measurement: Measurement | None = None

    @property
    def pending(self) -> bool:
        return self.state in _PENDING

    @property
    def key(self) -> Key | None:
        return self.action.key if self.action else None


class Chain(msgspec.Struct, frozen=True):
    case: Case
    device: Device
    steps: Mapping[str, Step]

    def __getitem__(self, stage: str) -> Step:
        return self.steps[stage]

    def pending(self, stage: str) -> list[str]:
        """The stages up to this one that are to be executed."""
        upto = actions.STAGES[: actions.STAGES.index(stage) + 1]
        return [name for name in upto if self.steps[name].state in _PENDING]

    @property
    def code(self) -> Digest | None:
        record = self.steps["compile"].record
        return record.code if record and record.ok else None

    @property
    def failure(self) -> Step | None:
        """The first stage that failed; None when none did."""
        for step in self.steps.values():
            if step.state == "failed":
                return step
        return None


class Resolver:
    """Resolves cases against the records. One an invocation; cheap things about operations are kept."""

    def __init__(
        self,
        records: Records,
        toolchain: Toolchain,
        host: HostCpu,
        environment: Mapping[str, str],
        settings: Settings,
        device_of: Callable[[Case], Device],
        now: float,
        run: str,
    ) -> None:
        self._all_records, self.toolchain, self.host = records, toolchain, host
        self._records: Reader = records
        self.syntax = syntax_of(toolchain.version)
        self.environment, self.settings, self._device_of, self._now, self._run = (
            environment,
            settings,
            device_of,
            now,
            run,
        )
        self.settled: set[Key] = set()
        """Measurements that another invocation took while this one waited for them: not to be taken again."""
        self._known: dict[str, tuple[Data | None, Data | None]] = {}
        """Of operations, in a snapshot; by the shape's name, which says all that an operation is."""
        self._target_flags: dict[str, tuple[str, ...]] = {}

    def flags(self, case: Case) -> tuple[str, ...]:
        target = case.target
        if target.name not in self._target_flags:
            self._target_flags[target.name] = target.resolved_flags(self.host)
        return self._target_flags[target.name] + case.tuning.flags

    def data_actions(self, operation: Operation) -> tuple[Action, Action]:
        """(inputs, expected)"""
        return actions.inputs(operation), actions.expectation(operation)

    def operands(self, operation: Operation) -> Data | None:
        """`exact`, `random` → the digests of the operands' bytes; None while they are not made."""
        return self._made(operation)[0]

    def data(self, operation: Operation) -> Data | None:
        """`operands` and `expected_…`: all that verification compares; None while something is not made."""
        return self._made(operation)[1]

    def _made(self, operation: Operation) -> tuple[Data | None, Data | None]:
        """(operands, data)"""
        if (known := self._known.get(operation.shape_name)) is not None:
            return known
        inputs, expected = (self._records.found(action.key) for action in self.data_actions(operation))
        operands: Data | None = None
        data: Data | None = None
        if inputs is not None and inputs.ok:
            made, count = inputs.outputs, len(operation.operands())
            operands = Data()
            for recipe in ("exact", "random"):
                operands[recipe] = tuple([made[f"{recipe}_{i}"] for i in range(count)])
            if expected is not None and expected.ok:
                data = Data(operands)
                data.update({f"expected_{name}": (digest,) for name, digest in expected.outputs.items()})
        if self._records is not self._all_records:  # a snapshot: what is not made stays so
            self._known[operation.shape_name] = operands, data
        return operands, data

    def chain(self, case: Case) -> Chain:
        device = self._device_of(case)
        emit_action = actions.emit(case, self.syntax)
        module = emit_action.ingredients["module"]
        steps = {"emit": self._step(emit_action, "the module is not in the store")}
        requested = case.tuning.requested(case.operation)
        compile_action = actions.compilation(
            module, self.flags(case), self.toolchain.digest, self.environment, requested
        )
        compiled = steps["compile"] = self._step(compile_action, "never compiled with these ingredients")
        steps["verify"] = verified = self._verify(case.operation, compiled, device)
        steps["profile"] = self._profile(case.operation, compiled, verified, device)
        return Chain(case, device, steps)

    def chains(self, cases: Sequence[Case]) -> list[Chain]:
        """Of many cases, all as the records are now."""
        at_once = copy(self)
        at_once._records, at_once._known = self._all_records.reader(len(cases)), {}
        return [at_once.chain(case) for case in cases]

    def again(self, record: Record | Found) -> str | None:
        """Why a recorded failure is to be tried again, None when the record stands."""
        if record.ok or record.run == self._run:
            return None
        if self.settings.retry:
            return f"retry=yes; failed before: {record.reason}"
        return None if record.facts.get("repeatable", True) else f"may go better now: {record.reason}"

    def _step(self, action: Action, missing: str) -> Step:
        record = self._records.found(action.key)
        if record is None:
            return Step(action.stage, "missing", missing, action)
        if (why := self.again(record)) is not None:
            return Step(action.stage, "missing", why, action, record)
        if record.ok:
            return Step(action.stage, "made", "the store has it", action, record)
        return Step(action.stage, "failed", record.reason or "failed", action, record)

    def _verify(self, operation: Operation, compiled: Step, device: Device) -> Step:
        if self.settings.verify == "off":
            return Step("verify", "off", "verify=off")
        data = self.data(operation)
        if early := _waiting("verify", compiled, data):
            return early
        assert compiled.record is not None and compiled.record.code is not None and data is not None
        action = actions.verification(compiled.record.code, data, device.identity, device.threads)
        return self._step(action, "this code was never verified on this device")

    def _profile(self, operation: Operation, compiled: Step, verified: Step, device: Device) -> Step:
        data = self.operands(operation)
        if early := _waiting("profile", compiled, data):
            return early
        if verified.state == "failed" and self.settings.verify == "on":
            return Step(
                "profile", "blocked", f"verification failed: {verified.why}; verify=warn measures it all the same"
            )
        assert compiled.record is not None and compiled.record.code is not None and data is not None
        code = compiled.record.code
        action = actions.measurement(code, data["random"], self.settings.protocol, device.identity, device.threads)
        found = self._records.measurement(action.key)
        if found is None:
            return Step(
                "profile",
                "missing",
                f"this code was never measured on this device under {self.settings.protocol.id}",
                action,
            )
        if (again := self._measure_again(found)) is not None:
            return Step("profile", "missing", again, action, measurement=found)
        if found.status == "failed":
            return Step("profile", "failed", found.reason or "failed", action, measurement=found)
        return Step("profile", "made", "the store has it", action, measurement=found)

    def _measure_again(self, found: Measurement) -> str | None:
        wish = self.settings.remeasure
        if not wish and not self.settings.retry:
            return None
        if found.run == self._run or found.key in self.settled:
            return None
        if wish == "yes":
            return "remeasure=yes"
        if wish == "noisy" and found.status == "noisy":
            return "remeasure=noisy, and it was"
        if isinstance(wish, int) and self._now - found.at > wish * 86400:
            return f"measured more than {wish} days ago"
        if found.status == "failed" and self.settings.retry:
            return f"retry=yes; failed before: {found.reason}"
        return None


def _waiting(stage: str, compiled: Step, data: Mapping[str, Any] | None) -> Step | None:
    if compiled.state in ("failed", "blocked"):
        return Step(stage, "blocked", compiled.why)
    if compiled.pending:
        return Step(stage, "later", "depends on the code that compile makes")
    if data is None:
        return Step(stage, "later", "inputs and expected results are not made yet")
    return None
