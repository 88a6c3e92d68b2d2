"""What is measured of a case: its module, its module behind a rotation of its inputs, or a library's call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from dispatchflow.cases import rotating_inputs
from dispatchflow.cases.dispatch import Case
from dispatchflow.cases.provider import operand_types
from dispatchflow.engine.actions import Action
from dispatchflow.engine.resolver import Resolver
from dispatchflow.engine.stages import Artifacts, StageExecutor
from dispatchflow.engine.state import CaseState
from dispatchflow.errors import ToolError
from dispatchflow.iree.benchmark_output import Block
from dispatchflow.iree.targets import TARGETS
from dispatchflow.keys import digest_of
from dispatchflow.libraries import calls
from dispatchflow.libraries.installed import Installed
from dispatchflow.measurement.session import Trial
from dispatchflow.operations import Operation
from dispatchflow.tools.toolchain import Toolchain


@dataclass
class _Slow(Trial):
    """Starting it takes longer than a block, which is no part of the budget."""

    def spent(self, block: Block, wall_s: float) -> float:
        return self.protocol.warmup_s + block.ns * block.iterations / 1e9


@dataclass
class ColdTrial(_Slow):
    """`problem`: why the rotation cannot be had."""

    problem: str | None = None

    rotation: ClassVar[str | None] = rotating_inputs.FILE

    def argv(self, toolchain: Toolchain) -> tuple[str, ...]:
        if self.problem is not None:
            raise ToolError(f"the rotation of the inputs: {self.problem}")
        return super().argv(toolchain)


@dataclass
class LibraryTrial(_Slow):
    case: Case | None = None
    installed: Installed | None = None
    sets: int | None = None

    def argv(self, toolchain: Toolchain) -> tuple[str, ...]:
        assert self.case is not None and self.installed is not None
        operation = self.case.operation
        tensors, recipe = operand_types(operation), operation.recipes[-1]
        call = calls.call_argv(self.case.provider, self.installed, self.device, tensors, recipe)
        return calls.block_argv(call, self.protocol, self.iterations, self.sets)

    def ran_with(self, toolchain: Toolchain) -> dict[str, Any]:
        assert self.installed is not None
        return {"runtime": self.installed.version}


def rotated(resolver: Resolver, case: Case) -> tuple[bytes, tuple[str, ...]]:
    """(text, flags) of the module that takes the copies of a cold case in turn: for this CPU, whatever the case is
    compiled for."""
    sets = resolver.sets(case)
    assert sets is not None
    assert isinstance(case.operation, Operation)
    flags = TARGETS["llvm-cpu"].resolved_flags(resolver.host, resolver.syntax)
    return rotating_inputs.module(case.operation, sets).encode(), flags


def rotation_action(resolver: Resolver, case: Case) -> Action | None:
    """Its compile; None where a case needs none."""
    if resolver.sets(case) is None or case.library is not None:
        return None
    text, flags = rotated(resolver, case)
    return resolver.compilation(digest_of(text), flags)


def has_dispatches(chain: CaseState) -> bool:
    """Whether there is something that the runtime could tell the time of: it refuses a module without a device."""
    compiled = chain["compile"].record
    return compiled is None or bool(compiled.facts.get("dispatches", True))


def trial(executor: StageExecutor, chain: CaseState, made: Artifacts) -> Trial:
    """The measurement of this case, whose profile has an action, with what was made for it."""
    case, action, resolver = chain.case, chain["profile"].action, executor.resolver
    assert action is not None
    recipe = case.operation.recipes[-1]
    shared: dict[str, Any] = {
        "key": action.key,
        "label": case.name,
        "objects": {**made.files, **made.data.files(recipe)},
        "inputs": made.data.inputs(recipe),
        "device": chain.device,
        "ingredients": action.ingredients,
        "protocol": resolver.settings.protocol,
        "function": case.operation.function,
        "shape": case.shape_name,
    }
    sets = resolver.sets(case)
    if case.library is not None:
        return LibraryTrial(**shared, case=case, installed=resolver.installed(case), sets=sets)
    shared["dispatches"] = has_dispatches(chain)
    if sets is None:
        return Trial(**shared)
    compiled = executor.compile_module(*rotated(resolver, case))
    if compiled.ok:
        shared["objects"][rotating_inputs.FILE] = compiled.outputs["vmfb"]
    return ColdTrial(**shared, problem=compiled.reason)
