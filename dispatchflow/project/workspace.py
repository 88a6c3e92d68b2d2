"""One directory with specs, one store, one invocation: everything that commands work on, made when first asked for."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from dispatchflow import units
from dispatchflow.cases.case import Case
from dispatchflow.cases.known_failures import KnownFailure, KnownFailures, shipped
from dispatchflow.cases.rotating_inputs import COLD, not_coldable
from dispatchflow.engine.resolver import Resolver
from dispatchflow.engine.settings import Settings
from dispatchflow.engine.stages import StageExecutor
from dispatchflow.engine.state import CaseState
from dispatchflow.errors import NothingMatched, ToolchainError, suggestion
from dispatchflow.iree import command_lines
from dispatchflow.iree.cpu_features import HostCpu
from dispatchflow.iree.release import NEWEST, Release, syntax_of
from dispatchflow.iree.targets import TARGETS, Device, Target
from dispatchflow.iree.toolchain import Toolchain
from dispatchflow.keys import Digest
from dispatchflow.libraries import installed
from dispatchflow.measurement.anchor_trials import Anchors
from dispatchflow.measurement.ceilings import Ceilings
from dispatchflow.measurement.session import BlockRunner
from dispatchflow.operations import Operation
from dispatchflow.planning import plan
from dispatchflow.planning.location import Location
from dispatchflow.planning.plan import Plan, Skip
from dispatchflow.planning.sources import Sources
from dispatchflow.project.dodo_file import cache_path, store_path
from dispatchflow.project.replay import Replay
from dispatchflow.project.settings import settings
from dispatchflow.store.machine_facts import MachineFacts
from dispatchflow.store.stamps import stamp
from dispatchflow.store.store import Store
from dispatchflow.timing.statistics import NOISY
from dispatchflow.tools import devices, machine, processes, releases, toolchain
from dispatchflow.workload import Workload

# The reference holds each element as itself, as float64, and as its magnitude.
_REFERENCE_BYTES = 24
_SEARCHED = 100_000  # characters of a log, half of them from its end


class Workspace:
    """`root` holds the spec folder, the store and the view; `values` are the parsed variables. `seen` is told what
    is looked at; `say` gets a line about what takes long before anything else can be shown."""

    def __init__(
        self,
        root: Path,
        values: Mapping[str, Any],
        seen: Replay | None = None,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.root, self.values, self._seen, self.say = root, values, seen, say
        self.settings: Settings = settings(values, machine.memory_bytes())
        self.began, self.began_monotonic = time.time(), time.monotonic()
        # Chance, since clocks are set back and containers count processes from 1: parts and the newest are named by it.
        self.run = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(self.began))}-{os.urandom(4).hex()}"

    @property
    def store_path(self) -> Path:
        return store_path(self.root)

    @property
    def view_path(self) -> Path:
        return self.root / "build"

    @cached_property
    def view_name(self) -> str:
        """Of this directory's view among those of the store, which may be several directories' one."""
        return os.fsencode(os.path.relpath(self.view_path, self.store_path)).decode("ascii", "backslashreplace")

    @cached_property
    def store(self) -> Store:
        return Store(self.store_path)

    @cached_property
    def facts(self) -> MachineFacts:
        """What is known of this machine, whatever project found it out."""
        return MachineFacts(cache_path(), machine.identity(), self._stamp)

    def with_toolchain(self, word: str) -> Workspace:
        """This one, as `iree=WORD` would have it. It has the same store: a full disk allows one connection only."""
        other = Workspace(self.root, {**self.values, "iree": word}, say=self.say)
        other.store = self.store
        return other

    def close(self) -> None:
        if "store" in self.__dict__:
            self.store.records.close()

    @cached_property
    def plan(self) -> Plan:
        """The cases of specs and variables. What this machine has too few cores or memory for is a skip.

        Raises:
            SpecError: a spec or variable that is wrong, or no specs.
            NothingMatched: the specs have none of this operation, or of this tag.
        """
        sources = Sources(self.root, self.values, self._seen)
        tags = () if sources.adhoc else self.values.get("tags", ())
        sweeps = sources.sweeps()
        _ = self._own_known  # an entry that is wrong is reported before anything is made
        known = dict.fromkeys(tag for sweep in sweeps for tag in sweep.tags)
        if lacking := [tag for tag in tags if tag not in known]:
            facts = {"given": ", ".join(lacking), "tags": ", ".join(known) or "none"}
            raise NothingMatched("no sweep has this tag", facts, suggestion(lacking[0], known))
        first = {target: sweep.place for sweep in reversed(sweeps) for target in sweep.targets}
        for target, place in first.items():
            if target.name not in TARGETS:
                try:
                    devices.features(target, self.toolchain, self.store, self.settings.limits)
                except ToolchainError as error:
                    error.facts = {"spec": Location(place).at("target"), **error.facts}
                    raise
        found = plan.expand(sweeps, tags)
        fits, skips = list[Case](), list[Skip]()
        for case in found.cases:
            if (reason := self._lacking(case)) is None:
                fits.append(case)
            else:
                skips.append(Skip(case.name, reason, ""))
        return Plan(tuple(fits), found.tags, (*found.skips, *skips), found.notes, found.noisy)

    def _lacking(self, case: Case) -> str | None:
        """Why this toolchain or this machine cannot have it."""
        operation, target, syntax = case.operation, case.target, self._syntax
        if reason := target.inexpressible(syntax) or case.tuning.inexpressible(syntax, target):
            return reason
        if case.library is not None and self._library(case.provider) is None:
            return f"{case.provider} is not installed; {case.library.install}"
        if case.cache == COLD and (reason := not_coldable(operation, target, self._cache_bytes, self._memory_bytes)):
            return reason
        if case.threads is not None and case.threads > (cores := len(machine.cores())):
            return f"{case.threads} threads; this machine has {cores} cores"
        if (size := self._needed_bytes(operation)) > (has := self._memory_bytes):
            return f"verification needs about {units.size(size)} of memory; this machine has {units.size(has)}"
        return None

    def _needed_bytes(self, program: Workload) -> int:
        """That its verification takes, about; 0 where nobody said."""
        if not isinstance(program, Operation):
            return 0
        if (needed := self._needed.get(program.shape_name)) is None:
            tensors = [*(operand.type for operand in program.operands()), program.result()]
            self._needed[program.shape_name] = needed = _REFERENCE_BYTES * sum(tensor.size for tensor in tensors)
        return needed

    def _library(self, name: str) -> installed.Installed | None:
        found = installed.library(name)
        if self._seen is not None:
            self._seen.see("library", name, repr(found))
        return found

    @cached_property
    def _cache_bytes(self) -> int | None:
        return machine.last_level_cache_bytes()

    @cached_property
    def _memory_bytes(self) -> int:
        return machine.memory_bytes()

    @cached_property
    def _needed(self) -> dict[str, int]:
        return {}

    @cached_property
    def _syntax(self) -> Release:
        # A plan without another toolchain needs no store: `doit list` of a directory that cannot be written.
        return syntax_of(self.toolchain.version) if "iree" in self.values else NEWEST

    @cached_property
    def toolchain(self) -> Toolchain:
        word, limits = self.values.get("iree", "current"), self.settings.limits
        return toolchain.find(self.store, word, self.say, self._stamp, limits)

    @property
    def toolchain_words(self) -> list[str]:
        """The toolchains at hand, as `iree=` names them: this environment's, the fetched ones, the given one."""
        given = [self.values["iree"]] if "iree" in self.values else []
        return list(dict.fromkeys(["current", *releases.fetched_versions(self.store), *given]))

    def _stamp(self, path: str) -> str:
        return self._seen.look("stamp", path) if self._seen else stamp(path)

    @cached_property
    def host(self) -> HostCpu:
        """This CPU, as the compiler knows it."""
        return devices.host_cpu(self.store, self.toolchain, self.settings.limits)

    @cached_property
    def resolver(self) -> Resolver:
        return Resolver(
            self.store.records,
            self.toolchain,
            self.host,
            command_lines.environment(os.environ),
            self.settings,
            self.device,
            self.began,
            self.run,
            self._library,
            self._cache_bytes,
            machine.identity(),
            self.noisy_above,
            self.known,
        )

    @cached_property
    def known(self) -> KnownFailures:
        """The user's entries, then ours.

        Raises:
            SpecError: an entry that is wrong.
        """
        off = self.values.get("known_failures") == "off"
        entries = () if off else (*self._own_known, *shipped())
        return KnownFailures(entries, self.toolchain.version, self._log, self._features)

    def _features(self, target: Target) -> list[str]:
        """Features of the CPU that a target is compiled for, `avx512f`; none of a GPU."""
        if target.needs_host_cpu:
            found = self.host.features.split(",")
        elif target.backend == "llvm-cpu":
            found = devices.features(target, self.toolchain, self.store, self.settings.limits)
        else:
            return []
        return [feature[1:] for feature in found]

    @cached_property
    def _own_known(self) -> list[KnownFailure]:
        return Sources(self.root, self.values, self._seen).known_failures()

    def _log(self, digest: Digest) -> str:
        """What a tool printed, or its begin and end."""
        return processes.shortened(self.store.path(digest), _SEARCHED)

    @cached_property
    def _devices(self) -> dict[tuple[str, int | None], Device]:
        return {}

    def device(self, target: Target, threads: int | None) -> Device:
        place = (target.name if target.has_threads else target.driver, threads)
        if place not in self._devices:
            limits = self.settings.limits
            self._devices[place] = found = devices.of_target(target, threads, self.toolchain, self.store, limits)
            if self._seen and not target.has_threads:
                tool, store = self.toolchain.tool("iree-run-module"), os.fspath(self.store.root)
                asked = (target.driver, tool, limits.run_s, limits.memory_bytes, store)
                self._seen.see("driver", json.dumps(asked), repr(found))
        device = self._devices[place]
        unfit = target.not_on(device.architecture)
        return replace(device, absent=unfit) if unfit else device

    def noisy_above(self, case: Case) -> float:
        """The half-width of a median's interval above which this case's row is noisy."""
        if self.settings.noisy is not None:
            return self.settings.noisy
        return self.plan.noisy.get(case, NOISY) if self.plan.noisy else NOISY  # to hash a case takes long

    @cached_property
    def executor(self) -> StageExecutor:
        return StageExecutor(self.store, self.resolver, self.run)

    @cached_property
    def bench(self) -> BlockRunner:
        return BlockRunner(self.store, command_lines.device_environment(os.environ), self.settings.limits)

    @cached_property
    def ceilings(self) -> Ceilings:
        return Ceilings(self.store, self.facts, self.toolchain, self.executor)

    @cached_property
    def anchors(self) -> Anchors:
        return Anchors(self.store, self.facts, self.executor, self.ceilings, self.run)

    def chains(self, cases: Sequence[Case]) -> list[CaseState]:
        return self.resolver.chains(cases)
