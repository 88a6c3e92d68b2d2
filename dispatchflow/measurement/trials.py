"""Define trials. A trial is a measurement in progress, of a compiled module or of a call to a library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, ClassVar
from typing import Protocol as Protocol_

from dispatchflow.cases import rotating_inputs
from dispatchflow.cases.case import Case
from dispatchflow.engine.actions import Action
from dispatchflow.engine.call import library_argv
from dispatchflow.engine.resolver import Resolver
from dispatchflow.engine.stages import Artifacts, StageExecutor
from dispatchflow.engine.state import CaseState
from dispatchflow.errors import ToolError
from dispatchflow.iree import command_lines
from dispatchflow.iree.benchmark_output import Block
from dispatchflow.iree.rotation import FILE, Rotation
from dispatchflow.iree.targets import TARGETS, Device
from dispatchflow.iree.toolchain import Toolchain
from dispatchflow.keys import Digest, Key, digest_of
from dispatchflow.libraries import calls
from dispatchflow.measurement.anchors import Moment
from dispatchflow.timing import statistics
from dispatchflow.timing.protocols import Protocol
from dispatchflow.tools import machine
from dispatchflow.workload import ENTRY

_DISPATCH_BLOCKS = 6
"""The number of blocks at the start of a measurement in which each dispatch is timed.

A block is one benchmark process. In later blocks, only complete calls are timed."""


class Anchored(Protocol_):
    """The anchors that are measured together with a case.

    An anchor is a kernel that never changes. Its time shows how fast the machine is."""

    @property
    def trials(self) -> Sequence[Trial]: ...

    def failed(self, trial: Trial) -> None: ...

    def marks(self) -> dict[str, int]: ...

    def moment(
        self, key: Key, since: dict[str, int], blocks_ns: Sequence[float]
    ) -> tuple[Moment, dict[str, list[float]]]: ...


@dataclass
class Trial:
    """A measurement in progress: of a case, an anchor or a calibration kernel.

    A block of the measurement is one benchmark process."""

    key: Key
    label: str
    objects: Mapping[str, Digest]
    """The files that a benchmark process reads, as a dict from name to digest: `{"module.vmfb": …}`."""
    inputs: Sequence[str]
    """The values of the benchmark tool's option `--input=`."""
    device: Device
    ingredients: Mapping[str, Any]
    protocol: Protocol
    function: str = ENTRY
    parameters: Sequence[str] = ()
    """The files with weights, as values of the benchmark tool's option `--parameters=`."""
    shape: str = ""
    """Operation, sizes and types. Cases with the same shape are measured in the same rounds."""
    dispatches: bool = True
    """True if the module has dispatches that the runtime can time."""
    blocks_ns: list[float] = field(default_factory=list)
    dispatches_ns: dict[str, list[float]] = field(default_factory=dict)
    """A dict from the name of each dispatch to its times in ns.

    Each benchmark process that reports the dispatch adds one time."""
    waits: list[float | None] = field(default_factory=list)
    """The part of each benchmark process's wall time in which the process waited for a CPU.

    The list has one fraction for each process. An item is None if the fraction is unknown."""
    retaken: int = 0
    """The number of benchmark processes that were repeated, because they waited too long for a CPU.

    The times of these processes are not used."""
    spent_s: float = 0.0
    """The part of the protocol's time budget that the benchmark processes have used, in seconds."""
    iterations: int | None = None
    """The number of calls in the next benchmark process. None if the tool must find the number."""
    id: int | None = None
    """The number of the measurement in the store. None before the first block."""
    began: dict[str, Any] = field(default_factory=dict)
    """The conditions of the machine when the measurement began."""
    rounds: str | None = None
    """The name of the group of cases that are measured together. None until the case has a group.

    A round measures one block of each case in a group. The name is `RUN/NUMBER`: the run's name and a number."""
    claimed: bool = False
    """True if this run holds the lock on the measurement, so that other runs wait."""
    awaited: bool = False
    """True if this run has waited for another run that held the lock."""
    outcome: str | None = None
    """`measured`, `noisy` or `failed`. None until the outcome is decided."""
    reason: str | None = None
    failure: dict[str, Any] = field(default_factory=dict)
    """Facts about a failure, from which a later run decides whether to try again.

    `limit` is the limit that the process exceeded, as (name, value). `repeatable` says whether the same failure is
    expected again."""
    adopted: bool = False
    """True if the blocks are from another run, which measured the same case."""

    anchors: Anchored | None = None
    """The anchors that show how fast the machine is during the measurement."""
    since: dict[str, int] = field(default_factory=dict)
    """A dict from each anchor's name to the number of its blocks before this measurement began.

    A block is the timing of one benchmark process. The later blocks of the anchors show the machine's speed during
    the measurement."""

    rotation: ClassVar[str | None] = None
    """The file of an extra module, which calls the measured module with copies of the inputs.

    Each call uses the next copy. None if the inputs are not copied."""
    longest_s: ClassVar[float] = inf
    """An upper bound of the time limit for one benchmark process, in seconds."""
    what: ClassVar[str] = "case"
    """The kind of thing that is measured, as a noun for messages."""

    def retake(self, block: Block) -> bool:
        """Return whether to repeat a block (a benchmark process) that waited too long for a CPU.

        The method limits and counts the repetitions."""
        again = (
            statistics.waited_too_long(block.waited)
            and self.retaken < self.protocol.blocks // 2
            and self.spent_s < self.protocol.budget_s
        )
        self.retaken += again
        return again

    def add(self, block: Block) -> None:
        self.blocks_ns.append(block.ns)
        self.waits.append(block.waited)
        for name, ns in block.dispatches.items():
            self.dispatches_ns.setdefault(name, []).append(ns)
        typical_ns = statistics.median(self.blocks_ns)
        self.iterations = max(1, round(self.protocol.block_s * 1e9 / typical_ns))

    @property
    def disturbed_blocks(self) -> int:
        return sum(map(statistics.waited_too_long, self.waits))

    @property
    def unsure(self) -> bool:
        """True if the median time is too uncertain, or too many benchmark processes waited too long for a CPU."""
        return statistics.disturbed(self.disturbed_blocks, len(self.waits)) or statistics.noisy(self.blocks_ns)

    def spent(self, block: Block, wall_s: float) -> float:
        """Return the seconds by which a block reduces the protocol's time budget.

        `wall_s` is the wall time of the block's process."""
        return wall_s

    def ran_with(self, toolchain: Toolchain) -> dict[str, Any]:
        """Return a dict with the versions of the toolchain and its runtime, and the digest of the runtime."""
        # `runtime_digest` tells runtimes of the same version apart.
        return {
            "runtime": toolchain.runtime_version,
            "runtime_digest": toolchain.runtime_digest,
            "toolchain": toolchain.version,
        }

    def argv(self, toolchain: Toolchain) -> tuple[str, ...]:
        return command_lines.block_argv(
            toolchain.tool("iree-benchmark-module"),
            "module.vmfb",
            command_lines.device_flags(self.device.uri, self.device.cpus),
            self.inputs,
            self.protocol,
            self.iterations,
            # The statistics double the time of a block, and some blocks with them suffice for a median.
            dispatches=self.dispatches and toolchain.dispatch_statistics and len(self.blocks_ns) < _DISPATCH_BLOCKS,
            function=self.function,
            rotation=self.rotation,
            parameters=self.parameters,
        )


@dataclass
class _Slow(Trial):
    """A trial whose time budget covers the warm-up and the calls, but not the start of the processes."""

    def spent(self, block: Block, wall_s: float) -> float:
        return self.protocol.warmup_s + block.ns * block.iterations / 1e9


@dataclass
class ColdTrial(_Slow):
    """The measurement of a case with `cache=cold`: the inputs of a call are not in a cache.

    The inputs are copied many times, and each call uses the next copy."""

    problem: str | None = None
    """The reason why copies of the inputs cannot be used. None if they can."""

    rotation: ClassVar[str | None] = FILE

    def argv(self, toolchain: Toolchain) -> tuple[str, ...]:
        if self.problem is not None:
            raise ToolError(f"the rotation of the inputs: {self.problem}")
        return super().argv(toolchain)


@dataclass
class LibraryTrial(_Slow):
    """The measurement of a call to a library such as numpy, instead of a compiled module."""

    call: Sequence[str] = ()
    """The beginning of the command line that calls the library.

    For each benchmark process, options are appended."""
    version: str = ""
    """The library's version."""
    sets: int | None = None
    """With `cache=cold`, the number of copies of the inputs; each call uses the next copy. Otherwise None."""

    def argv(self, toolchain: Toolchain) -> tuple[str, ...]:
        return calls.block_argv(self.call, self.protocol, self.iterations, self.sets)

    def ran_with(self, toolchain: Toolchain) -> dict[str, Any]:
        return {"runtime": self.version}


def rotated(resolver: Resolver, rotation: Rotation) -> tuple[bytes, tuple[str, ...]]:
    """Return the text of the extra module that `cache=cold` needs, and the compiler's flags for it.

    In each call, the extra module calls the case's module with the next copy of the inputs. The flags are for this CPU,
    whatever the case's target."""
    flags = TARGETS["llvm-cpu"].resolved_flags(resolver.host, resolver.syntax)
    return rotating_inputs.module(rotation).encode(), flags


def rotation_action(resolver: Resolver, case: Case) -> Action | None:
    """Return the action that compiles a wrapper, which calls the case's module with cold inputs.

    The wrapper uses the next copy of the inputs in each call. Returns None if no inputs are copied, or if a
    library computes the case."""
    if case.library is not None or (rotation := resolver.rotation(case)) is None:
        return None
    text, flags = rotated(resolver, rotation)
    return resolver.compilation(digest_of(text), flags)


def has_dispatches(chain: CaseState) -> bool:
    """Return whether a case's module has dispatches. If that is not known, return True."""
    # Without any, the runtime refuses dispatch statistics.
    compiled = chain["compile"].record
    return compiled is None or bool(compiled.facts.get("dispatches", True))


def trial(executor: StageExecutor, chain: CaseState, made: Artifacts) -> Trial:
    """Prepare the measurement of a case.

    `chain` has the states of the case's stages. The key of the stage `profile` must be known. `made` has the case's
    compiled code and its inputs."""
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
        "parameters": [value for value, _ in made.data.parameters],
        "shape": case.shape_name,
    }
    rotation = resolver.rotation(case)
    if case.library is not None:
        installed = resolver.installed(case)
        call = library_argv(case, installed, chain.device, made.data, recipe)
        return LibraryTrial(**shared, call=call, version=installed.version, sets=rotation.count if rotation else None)
    shared["dispatches"] = has_dispatches(chain)
    if rotation is None:
        return Trial(**shared)
    if (problem := rotating_inputs.too_large(rotation, machine.memory_bytes())) is None:
        compiled = executor.compile_module(*rotated(resolver, rotation))
        if (problem := compiled.reason) is None:
            shared["objects"][FILE] = compiled.outputs["vmfb"]
    return ColdTrial(**shared, problem=problem)
