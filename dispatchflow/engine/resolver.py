"""Determine the state of each case, such as which stages are done, from the store's records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from dispatchflow.cases.case import Case
from dispatchflow.cases.known_failures import KnownFailures
from dispatchflow.cases.module import Module
from dispatchflow.cases.rotating_inputs import HOT
from dispatchflow.engine import actions, rotations, site_states, verdicts
from dispatchflow.engine.actions import Action, Data
from dispatchflow.engine.data import DataResolver
from dispatchflow.engine.regressions import Regressions
from dispatchflow.engine.reuse import Reuse
from dispatchflow.engine.settings import Settings
from dispatchflow.engine.state import CaseState, StageState
from dispatchflow.iree import flags as extra
from dispatchflow.iree.cpu_features import HostCpu
from dispatchflow.iree.release import syntax_of
from dispatchflow.iree.rotation import Rotation
from dispatchflow.iree.targets import Device, Target
from dispatchflow.keys import Digest, Form, Key
from dispatchflow.libraries import providers
from dispatchflow.timing.statistics import NOISY
from dispatchflow.workload import Workload

if TYPE_CHECKING:
    from dispatchflow.iree.toolchain import Toolchain
    from dispatchflow.libraries.installed import Installed
    from dispatchflow.store.entries import Measurement, Reader, Record, RecordHead, Tables


class Resolver:
    """A resolver belongs to one toolchain."""

    def __init__(
        self,
        records: Tables,
        toolchain: Toolchain,
        host: HostCpu,
        environment: Mapping[str, str],
        settings: Settings,
        device_of: Callable[[Target, int | None], Device],
        now: float,
        run: str,
        installed: Callable[[str], Installed | None] = lambda library: None,
        cache_bytes: int | None = None,
        machine: str | None = None,
        noisy_above: Callable[[Case], float] = lambda case: NOISY,
        known: KnownFailures | None = None,
    ) -> None:
        self._noisy_above = noisy_above
        self._installed, self._cache_bytes = installed, cache_bytes
        self.known = known or KnownFailures((), toolchain.version, lambda log: "")
        self._all_records, self.toolchain, self.host = records, toolchain, host
        self._records: Reader = records
        self.syntax = syntax_of(toolchain.version)
        self.environment, self.settings, self._device_of = environment, settings, device_of
        self._now, self._run = now, run
        self.reuse = Reuse(records.remembered, toolchain.runtime_digest, machine)
        self.measured_elsewhere: set[Key] = set()
        """The keys of measurements that another invocation made during this invocation. They are not repeated."""
        self.unjudged: dict[Case, CaseState] = {}
        """The cases that were measured by a runtime that is not yet fully compared with the present runtime."""
        self.asked_to_measure: Collection[Case] = ()
        """The cases that the user selected for measurement, including cases with a valid measurement."""
        self.asked_for_sites: Collection[Case] = ()
        """The cases whose sites are requested. Only these cases have a state of stage `sites`."""
        self._regressions = Regressions(records, toolchain.digest)
        self._target_flags: dict[str, tuple[str, ...]] = {}
        self._compiles: dict[tuple[tuple[str, ...], str | None], Form] = {}
        self.supplies = DataResolver(records, toolchain, host, environment, device_of, self.reason_to_retry, installed)

    def flags(self, case: Case) -> tuple[str, ...]:
        target = case.target
        if target.name not in self._target_flags:
            self._target_flags[target.name] = target.resolved_flags(self.host, self.syntax)
        return extra.behind(self._target_flags[target.name] + case.tuning.flags, case.flags)

    def emission(self, case: Case) -> Action:
        if (program := case.library_program) is not None:
            return actions.emit_program(program.digest)
        if type(case.operation) is Module:  # runs for every case; isinstance is slow for an abstract class
            return self.supplies.reprint(case.operation)
        return actions.emit(case, self.syntax)

    def chain(self, case: Case) -> CaseState:
        device = self._device_of(case.target, case.threads)
        emitted = self.step(self.emission(case), "the module is not in the store")
        if case.library is None:
            compiled = self._compile(case, emitted)
        else:
            device = providers.device_of(case.library, case.target, device, self.environment)
            own = StageState("compile", "off", f"{case.provider} brings its own code", brought=self.call_code(case))
            compiled = own if emitted.state != "failed" else StageState("compile", "blocked", emitted.why)
        verified = self._verify(case, compiled, device)
        profiled = self._profile(case, compiled, verified, device)
        if verified.own is not None and profiled.key is not None:
            now = profiled.pending and case in self.asked_to_measure
            again = self.reuse.reason_to_verify_again(now, self._records.measurement(profiled.key), device)
            verified = verdicts.again(verified, again)
        chain = CaseState(case, device, {"emit": emitted, "compile": compiled, "verify": verified, "profile": profiled})
        if (failed := chain.failure) is not None:
            log = failed.record.outputs.get("log") if failed.record else None
            entry = self.known.failing(case, failed.stage, failed.why, log)
            chain = self._regressions.judged(chain, failed, entry)
        if profiled.state == "made" and profiled.measurement and self.reuse.foreign(profiled.measurement):
            judgement = self.reuse.judged(profiled.measurement, device)
            if judgement is None or judgement.has_few_controls:
                self.unjudged[case] = chain
        if self.asked_for_sites and case in self.asked_for_sites:
            chain = msgspec.structs.replace(chain, sites=site_states.state(self, chain, self._run))
        return chain

    def recorded(self, action: Action) -> RecordHead | None:
        return self._records.found(action.key)

    def installed(self, case: Case) -> Installed:
        """Return the library of a case. It is installed, because planning skips a case without it."""
        found = self._installed(case.provider)
        assert found is not None
        return found

    def call_code(self, case: Case) -> Digest:
        """Return the digest of all code that runs when a library, such as numpy, computes `case`."""
        program = case.library_program
        assert case.library is not None and program is not None
        return providers.code(program.digest, case.library, self.installed(case))

    def packs_operands(self, case: Case) -> bool:
        """Return whether the compiler by default packs operands of matrix products for the case's target."""
        return self.syntax.packs(case.target.backend)

    def rotation(self, case: Case) -> Rotation | None:
        """Return which inputs of `case` are copied, so that calls do not find them in the cache.

        Returns None with a hot cache, if no input can be copied, or if a user's module has no inputs yet."""
        return None if case.cache == HOT else rotations.of(case.operation, self.supplies, self._cache_bytes)

    def _compile(self, case: Case, emitted: StageState) -> StageState:
        assert emitted.action is not None
        dispatch = case.dispatch
        if type(case.operation) is not Module:
            printed = Digest(emitted.action.strings[0])  # the digest is known before the text is stored
        else:
            if emitted.state == "failed":
                return StageState("compile", "blocked", emitted.why)
            if emitted.pending or emitted.record is None:
                return StageState("compile", "later", "depends on how the compiler prints the file")
            if case.operation.function not in (known := emitted.record.facts["functions"]):
                why = f"no public function '{case.operation.function}'; the file has {', '.join(known) or 'none'}"
                return StageState("compile", "failed", why)
            printed, dispatch = emitted.record.outputs["module"], dispatch.printed(emitted.record)
        action = self.compilation(printed, self.flags(case), dispatch.demanded(self.packs_operands(case)))
        return self.step(action, "never compiled with these ingredients")

    def compilation(self, module: Digest, flags: tuple[str, ...], demanded: str | None = None) -> Action:
        """Return the action that compiles a module's text with this toolchain.

        `module` is the digest of the text. `demanded` is the lowering configuration that the compiler must choose."""
        shared = (flags, demanded)
        if (form := self._compiles.get(shared)) is None:
            form = actions.compilations(flags, self.toolchain.digest, self.environment, demanded)
            self._compiles[shared] = form
        return actions.compilation(module, form)

    def forget_judgements(self) -> None:
        self.reuse.forget()
        self.unjudged.clear()

    def chains(self, cases: Sequence[Case]) -> list[CaseState]:
        """Return the states of many cases, from one snapshot of the records."""
        at_once = copy(self)
        at_once._records = reader = self._all_records.reader(len(cases))
        if reader is not self._all_records:
            at_once.supplies = self.supplies.of_snapshot(reader)
        return [at_once.chain(case) for case in cases]

    def reason_to_retry(self, record: Record | RecordHead) -> str | None:
        """Return why a recorded action is to be tried again; None if it is not."""
        if record.ok or record.run == self._run:
            return None
        if self.settings.retry:
            return f"retry=yes; failed before: {record.reason}"
        return self._reason_to_retry_failure(record.facts, record.reason)

    def _reason_to_retry_failure(self, facts: Mapping[str, Any], reason: str | None) -> str | None:
        if (why := self.settings.limits.raised(facts.get("limit"))) is not None:
            return why
        if facts.get("runtime_digest", mine := self.toolchain.runtime_digest) != mine:
            return "failed or gave wrong results with another runtime"
        return None if facts.get("repeatable", True) else f"failed before, but may pass now: {reason}"

    def step(self, action: Action, missing: str) -> StageState:
        """Return an action's state. If the action has no record, `missing` becomes the state's `why`."""
        record = self._records.found(action.key)
        if record is None:
            return StageState(action.stage, "missing", missing, action)
        if (why := self.reason_to_retry(record)) is not None:
            return StageState(action.stage, "missing", why, action, record)
        if record.ok:
            return StageState(action.stage, "made", "the store has it", action, record)
        return StageState(action.stage, "failed", record.reason or "failed", action, record)

    def _verify(self, case: Case, compiled: StageState, device: Device) -> StageState:
        program, off = case.operation, self.settings.verify == "off"
        if (absent := device.absent or (None if off else self.supplies.absent(program))) is not None:
            return StageState("verify", "absent", absent)
        data = self.supplies.data(program)
        if early := self._not_ready("verify", program, compiled, data):
            return StageState("verify", "off", "verify=off") if off else early
        assert compiled.code is not None and data is not None
        call = actions.Call(compiled.code, program.function, device)
        tolerance = program.tolerance if type(program) is Module else None
        what = call, data, tolerance, self.supplies.is_reference(case, compiled.code)
        runtime = self.toolchain.runtime_digest if compiled.brought is None else None
        step = verdicts.standing(self.step, partial(actions.verification, *what), runtime)
        if not off:
            return step
        known = f"; recorded: {step.why}" if step.state == "failed" else ""
        return msgspec.structs.replace(step, state="off", why=f"verify=off{known}")

    def _profile(self, case: Case, compiled: StageState, verified: StageState, device: Device) -> StageState:
        program = case.operation
        if verified.state == "absent" and (device.absent is not None or self.settings.verify == "on"):
            return StageState("profile", "absent", verified.why)
        operands = self.supplies.operands(program)
        if early := self._not_ready("profile", program, compiled, operands):
            return early
        if verified.state == "failed" and self.settings.verify == "on":
            return StageState(
                "profile", "blocked", f"verification failed: {verified.why}; verify=warn measures it anyway"
            )
        rotation = self.rotation(case)
        if case.cache != HOT and (problem := rotations.problem(program, self.supplies, rotation, self.flags(case))):
            return StageState("profile", "failed", problem)
        assert compiled.code is not None and operands is not None
        call = actions.Call(compiled.code, program.function, device)
        copies = rotation.count if rotation else None
        action = actions.measurement(call, operands.measured, self.settings.protocol, copies)
        found = self._records.measurement(action.key)
        refusal = self.reuse.refusal(found, device) if found is not None else None
        if refusal is not None:
            older = self._all_records.measurements(action.key)
            found = next((m for m in older if not self.reuse.refusal(m, device)), None)
        failed = None
        if found is not None and found.status == "failed":  # a failed measurement does not replace a complete one
            older = self._all_records.measurements(action.key)
            whole = next((m for m in older if m.status != "failed" and not self.reuse.refusal(m, device)), None)
            failed, found = (found, whole) if whole is not None else (None, found)
        if found is None:
            never = f"this code was never measured on this device with protocol {self.settings.protocol.id}"
            return StageState("profile", "missing", refusal or never, action)
        if (failed is None or failed.run != self._run) and (again := self._measure_again(found, case)) is not None:
            return StageState("profile", "missing", again, action, measurement=found)
        if found.status == "failed":
            return StageState("profile", "failed", found.reason or "failed", action, measurement=found)
        doubts = [f"a later measurement failed: {failed.reason}"] if failed is not None else []
        doubts += self.reuse.doubts(found, device)
        return StageState(
            "profile", "made", f"the store has it{self.reuse.whose(found, device)}", action, measurement=found,
            doubt="; ".join(doubts) or None,
        )  # fmt: skip

    def _measure_again(self, found: Measurement, case: Case) -> str | None:
        wish = self.settings.remeasure
        if wish is None and found.status != "failed":
            return None
        if found.run == self._run or found.key in self.measured_elsewhere:
            return None
        if wish == "yes":
            return "remeasure=yes"
        if wish == "noisy" and found.noisy_above(self._noisy_above(case)):
            return "remeasure=noisy, and the measurement is noisy"
        if isinstance(wish, int) and self._now - found.at > wish * 86400:
            return f"measured more than {wish} days ago"
        if isinstance(wish, int) and found.at > self._now + 86400:
            return "measured at a time in the future; the age is unknown"
        if found.status != "failed":
            return None
        if self.settings.retry:
            return f"retry=yes; failed before: {found.reason}"
        return self._reason_to_retry_failure(found.conditions, found.reason)

    def _not_ready(self, stage: str, program: Workload, compiled: StageState, data: Data | None) -> StageState | None:
        if compiled.state in ("failed", "blocked"):
            return StageState(stage, "blocked", compiled.why)
        if compiled.pending:
            return StageState(stage, "later", "depends on the compiled code")
        if data is None:
            if (failure := self.supplies.failure(program)) is not None:
                return StageState(stage, "failed" if stage == "verify" else "blocked", failure)
            return StageState(stage, "later", "inputs and expected results do not exist yet")
        return None
