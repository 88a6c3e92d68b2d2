"""Measure the sites of a case: the places in its program that launch a dispatch.

The times are measured in several blocks. A block is one process that profiles several calls, alone on the machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from dispatchflow.cases.case import Case
from dispatchflow.engine import provenance, site_states, trace
from dispatchflow.engine.actions import Action
from dispatchflow.engine.stages import Artifacts, StageExecutor
from dispatchflow.engine.state import CaseState
from dispatchflow.errors import ToolError, in_one_line
from dispatchflow.iree import command_lines, profile_events
from dispatchflow.iree.profile_events import Profile, Repetition
from dispatchflow.iree.targets import Device
from dispatchflow.measurement.session import BlockRunner
from dispatchflow.models import site_times
from dispatchflow.models.site import Program
from dispatchflow.models.site_times import Block, Calls, IncompleteProfile, ProgramTimes
from dispatchflow.store import disk
from dispatchflow.store.entries import Record
from dispatchflow.tools import processes

_EVENTS = 20_000
"""An approximate limit for the number of dispatches that the measured calls of a block launch.

A block is one profiled process. Its number of calls is computed as if each site launched one dispatch in each call. A
profile has about 300 bytes for each dispatch."""
_ATTEMPTS = 5
"""The largest number of attempts to profile a block, unless the runtime loses events of the profile."""
_INCOMPLETE = 20
"""The largest number of attempts to profile a block if the runtime loses events of the profile."""
_FLUSH_MS = 1
_LOADS = 5
"""The number of times that a recording is replayed to measure dispatches in a module's initializers.

The recording has the device's commands during one load of the module and one call. The load runs the initializers."""


_Read = TypeVar("_Read")
_Reader = Callable[[Program, Profile, Sequence[Repetition]], _Read]


class _Profiled(NamedTuple):
    case: Case
    device: Device
    made: Artifacts
    program: Program
    calls: int


@dataclass(frozen=True, slots=True)
class SiteTrials:
    """Measures the sites of cases, one case after the other."""

    executor: StageExecutor
    bench: BlockRunner

    def make(self, case: Case) -> Record | None:
        """Measure the sites of a case if no usable times are stored, and return the record of the sites.

        The record has no times if the sites cannot be measured. Returns None if the case does not compile."""
        traced = provenance.of_case(self.executor, case)
        if traced is None or not traced.ok:
            return traced
        chain = self.executor.resolver.chain(case)
        step = chain.sites
        assert step is not None
        if not step.pending or step.action is None:
            return self.executor.store.records.get(step.key) if step.key else traced
        made = self.executor.artifacts(case, expected=False)
        if made is None:
            return traced
        program = provenance.program_of(self.executor, traced.outputs)
        before = step.record.whole if step.record is not None else None
        with self.executor.store.lock(step.action.key):
            known = self.executor.store.records.get(step.action.key)
            if known is not None and known != before and self.executor.resolver.reason_to_retry(known) is None:
                return known  # another invocation measured them while this one waited
            return self._recorded(step.action, chain, made, program, traced)

    def _recorded(self, action: Action, chain: CaseState, made: Artifacts, program: Program, traced: Record) -> Record:
        store, begin = self.executor.store, time.monotonic()
        outputs, reason, facts = dict(traced.outputs), None, traced.facts.copy()
        try:
            blocks = self._blocks(chain, made, program)
            times = self._with_load(chain, made, program, site_times.program_times(program, blocks))
            outputs["times"] = store.put_bytes(msgspec.json.encode(times))
        except (ToolError, OSError) as error:
            disk.check(store.root, str(error))
            reason = f"measuring the sites failed: {in_one_line(error)}"
            facts["repeatable"] = False  # another run may have a quieter machine
        record = Record(
            action.key, action.stage, reason is None, reason, outputs, facts,
            ingredients=action.ingredients, cost_s=time.monotonic() - begin, run=self.executor.run, at=time.time(),
        )  # fmt: skip
        store.records.add(record)
        return record

    def _blocks(self, chain: CaseState, made: Artifacts, program: Program) -> list[Block]:
        protocol, found = self.executor.resolver.settings.protocol, chain["profile"].measurement
        assert found is not None and found.median_ns is not None
        # Each process makes twice this number of calls; the first half is the warm-up.
        calls = min(protocol.block_s * 1e9 / found.median_ns, _EVENTS / max(1, len(program.sites)))
        blocks: list[Block] = []
        flush_ms: int | None = None
        begin = time.monotonic()
        while len(blocks) < protocol.blocks and (not blocks or time.monotonic() - begin < protocol.budget_s):
            profiled = _Profiled(chain.case, chain.device, made, program, max(1, round(calls)))
            block, flush_ms = self._repeated(profiled, flush_ms, site_times.read_block)
            blocks.append(block)
        return blocks

    def _with_load(self, chain: CaseState, made: Artifacts, program: Program, times: ProgramTimes) -> ProgramTimes:
        """Return `times` with the total time of the dispatches that run when the module is loaded."""
        # They run before the profile of the calls begins. Therefore a load and a call are recorded once, replayed and
        # profiled.
        tools, device, operation = self.executor.resolver.toolchain, chain.device, chain.case.operation
        if site_times.AT_LOAD not in times.untimed.values():
            return times
        if not times.steady:
            return msgspec.structs.replace(times, load_unknown="calls differ")
        store, recipe = self.executor.store, operation.recipes[-1]
        with store.scratch() as scratch:
            place = self.executor.place(scratch, device, {**made.files, **made.data.files(recipe)})
            run = place.argv(made.data, recipe, (), operation.function)
            tool = tools.tool("iree-benchmark-replay")
            replay = command_lines.profiled_replay_argv(tool, place.device_flags, _LOADS)
            try:
                with store.busy():
                    self._run(command_lines.recorded_argv(run), scratch, device.cpus)
                with store.quiet():
                    self._run(replay, scratch, device.cpus)
                with store.busy():
                    self._run(command_lines.profile_export_argv(tools.tool("iree-profile")), scratch, ())
                    profile = profile_events.parse((scratch / "calls.jsonl").read_bytes())
            except FileNotFoundError:  # the tool that replays
                why = f"IREE {tools.version} cannot record a load; 3.13 and later can"
                return msgspec.structs.replace(times, load_unknown=why)
            except ToolError as error:
                why = f"the load cannot be recorded and replayed: {in_one_line(error)}"
                return msgspec.structs.replace(times, load_unknown=why)
        called = msgspec.structs.replace(program, sites=program.called_by(operation.function))
        found = site_times.load_ns(called, times, profile, _LOADS)
        unknown = "its replay launches other dispatches" if found is None else None
        return msgspec.structs.replace(times, at_load_ns=found, load_unknown=unknown)

    def one_call(self, case: Case, device: Device) -> tuple[Program, Calls]:
        """Verify a case and profile one call of it; return (program with its sites, events of the call).

        Nothing is recorded in the store.

        Raises:
            SpecError: the case is computed by a library, which has no sites.
            ToolError: the case has wrong results, cannot be called or profiled, or its sites are not known."""
        site_states.refuse_library(case)
        if (why := site_states.unprofiled(self.executor.resolver, case)) is not None:
            raise ToolError(f"{case.name} cannot be profiled", {"found": why})
        made = trace.verified(self.executor, case, device)
        traced = provenance.of_case(self.executor, case)
        if traced is None or not traced.ok:
            raise ToolError(f"the sites of {case.name} are unknown", {"found": traced.reason if traced else None})
        program = provenance.program_of(self.executor, traced.outputs)
        calls, _ = self._repeated(_Profiled(case, device, made, program, 1), None, site_times.measured_calls)
        return program, calls

    def _repeated(self, profiled: _Profiled, flush_ms: int | None, read: _Reader[_Read]) -> tuple[_Read, int | None]:
        """Run and profile a case, and try again if this fails; return (result of `read`, last `flush_ms`).

        The runtime empties its event buffer every `flush_ms` ms. Later attempts use `_FLUSH_MS` instead, because events
        may have been lost."""
        attempt = 1
        while True:
            try:
                return self._profile(profiled, flush_ms, read), flush_ms
            except ToolError as error:
                if attempt >= (_INCOMPLETE if isinstance(error, IncompleteProfile) else _ATTEMPTS):
                    raise
            attempt, flush_ms = attempt + 1, _FLUSH_MS

    def _profile(self, profiled: _Profiled, flush_ms: int | None, read: _Reader[_Read]) -> _Read:
        case, device, made, program, calls = profiled
        store, operation = self.executor.store, case.operation
        toolchain, recipe = self.executor.resolver.toolchain, operation.recipes[-1]
        with store.scratch() as scratch:
            store.place(scratch, {**made.files, **made.data.files(recipe)})
            argv = command_lines.profiled_benchmark_argv(
                toolchain.tool("iree-benchmark-module"),
                "module.vmfb",
                command_lines.device_flags(device.uri, device.cpus),
                made.data.inputs(recipe),
                calls,
                function=operation.function,
                flush_ms=flush_ms,
                parameters=[value for value, _ in made.data.parameters],
            )
            with store.quiet():
                self._run(argv, scratch, device.cpus)
            timed = (scratch / "stdout").read_text(errors="replace")
            with store.busy():
                self._run(command_lines.profile_export_argv(toolchain.tool("iree-profile")), scratch, ())
                profile = profile_events.parse((scratch / "calls.jsonl").read_bytes())
                called = msgspec.structs.replace(program, sites=program.called_by(operation.function))
                return read(called, profile, profile_events.repetitions(timed))

    def _run(self, argv: tuple[str, ...], scratch: Path, cpus: tuple[int, ...]) -> None:
        limits = self.bench.limits
        command = processes.Command(
            argv, scratch, self.bench.environment, time_limit_s=limits.block_s,
            memory_limit_bytes=limits.memory_bytes, cpus=cpus,
        )  # fmt: skip
        outcome = processes.run(command)
        if outcome.failure:
            stderr = processes.shortened(scratch / "stderr", 600)
            raise ToolError(outcome.failure, {"stderr": stderr} if stderr else {})
