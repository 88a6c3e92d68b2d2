"""Find a case's state in stage `sites`.

A site is a place in a program where a dispatch is launched. The stage finds the sites of a case, and then measures
their times."""

from __future__ import annotations

from typing import Protocol

import msgspec

from dispatchflow.cases.case import Case
from dispatchflow.cases.rotating_inputs import HOT
from dispatchflow.engine import actions
from dispatchflow.engine.actions import Action
from dispatchflow.engine.data import DataResolver
from dispatchflow.engine.settings import Settings
from dispatchflow.engine.state import CaseState, StageState
from dispatchflow.errors import SpecError
from dispatchflow.iree.release import Release
from dispatchflow.iree.toolchain import Toolchain
from dispatchflow.stages import SITES

_NO_PROFILES = ("cuda", "hip")
"""Drivers for which the runtime records no profiles (IREE 3.13)."""


class Resolver(Protocol):
    """The part of `resolver.Resolver` that this module uses."""

    settings: Settings
    syntax: Release
    toolchain: Toolchain
    supplies: DataResolver

    def step(self, action: Action, missing: str) -> StageState: ...


def state(resolver: Resolver, chain: CaseState, run: str) -> StageState:
    """Return the state of a case's stage `sites`.

    `chain` has the states of the other stages. `run` identifies the present run. If this run measured the case again,
    older times of the sites are outdated, and the state is `missing`. If the sites were found but cannot be timed, the
    field `doubt` of the returned state says why."""
    case, compiled = chain.case, chain["compile"]
    if case.library is not None:
        return StageState(SITES, "off", _unknown(case))
    if compiled.pending:
        return StageState(SITES, "later", "depends on the compiled code")
    if (tracing := provenance_of(chain)) is None:
        return StageState(SITES, "blocked", compiled.why)
    traced = resolver.step(tracing, "its sites were never looked for")
    traced = msgspec.structs.replace(traced, stage=SITES)
    if traced.state != "made" or traced.record is None:
        return traced
    if chain["verify"].pending or chain["profile"].pending:
        return StageState(SITES, "later", "is measured after the case itself")
    if (why := _untimed(resolver, chain, traced)) is not None:
        return msgspec.structs.replace(traced, doubt=f"no times: {why}")
    operands = resolver.supplies.operands(case.operation)
    assert compiled.code is not None and operands is not None
    call = actions.Call(compiled.code, case.operation.function, chain.device)
    protocol, runtime = resolver.settings.protocol, resolver.toolchain.runtime_digest
    action = actions.site_times(call, operands.measured, protocol, traced.record.outputs["sites"], runtime)
    step = resolver.step(action, f"its sites were never measured on this device with protocol {protocol.id}")
    measured = chain["profile"].measurement
    if step.record is None or step.record.run == run or measured is None or measured.run != run:
        return step
    return StageState(SITES, "missing", "the case itself was measured again", action, step.record)


def provenance_of(chain: CaseState) -> Action | None:
    """Return the action that finds a case's sites.

    Returns None if the case is not compiled, or if a library computes it."""
    key, emitted = chain["compile"].key, chain["emit"].record
    if chain.case.library is not None or key is None or not chain.made("compile"):
        return None
    return actions.provenance(key, actions.labels_of(chain.case.operation, emitted.outputs if emitted else {}))


def refuse_library(case: Case) -> None:
    """Raise a SpecError for a case that a library computes."""
    if case.library is not None:
        raise SpecError(_unknown(case), {"case": case.name})


def _unknown(case: Case) -> str:
    return f"{case.provider} brings its own code, whose dispatches are unknown"


def unprofiled(resolver: Resolver, case: Case) -> str | None:
    """Return why the sites of a case cannot be measured with IREE's own profiler; None if they can."""
    if not resolver.syntax.has_profiles:
        return f"IREE {resolver.toolchain.version} has no iree-profile; 3.12 and later have"
    if case.target.driver in _NO_PROFILES:
        return f"the runtime records no profiles on {case.target.driver}"
    if case.cache != HOT:
        return "the sites of a call are measured with hot inputs; the case with cache=hot has them"
    return None


def _untimed(resolver: Resolver, chain: CaseState, traced: StageState) -> str | None:
    if (why := unprofiled(resolver, chain.case)) is not None:
        return why
    if traced.record is not None and not traced.record.facts.get("sites"):
        return "it launches no dispatch"
    if chain["profile"].state in ("absent", "blocked", "failed"):
        return chain["profile"].why
    return None if resolver.supplies.operands(chain.case.operation) else "its inputs do not exist"
