"""Define `Workspace`, which has what commands use, such as the cases, the store and the toolchain."""

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
from dispatchflow.errors import ToolchainError
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

# Bytes of memory per element: the reference holds each element in its own type, as float64, and as a magnitude.
_REFERENCE_BYTES = 24
_SEARCHED = 100_000  # characters of a log that `_log` returns, half of them from its end


class Workspace:
    """A user's directory during one invocation. Attributes such as the store are made on first use.

    Args:
        root: the directory with the specs, the store and `build/`.
        values: the variables of the command line.
        seen: records what is read, so that a later run can repeat the output.
        say: prints a line about a long wait or long work.
    """

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
        # A run's name is partly random, since clocks are set back and containers number processes from 1. The run's
        # Parquet files have this name, too.
        self.run = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(self.began))}-{os.urandom(4).hex()}"

    @property
    def store_path(self) -> Path:
        return store_path(self.root)

    @property
    def view_path(self) -> Path:
        return self.root / "build"

    @cached_property
    def view_name(self) -> str:
        """The path of `build/` relative to the store. The store's records identify `build/` by this path."""
        return os.fsencode(os.path.relpath(self.view_path, self.store_path)).decode("ascii", "backslashreplace")

    @cached_property
    def store(self) -> Store:
        return Store(self.store_path)

    @cached_property
    def facts(self) -> MachineFacts:
        """Facts about this machine, such as its highest flops/s, that all projects of the user share."""
        return MachineFacts(cache_path(), machine.identity(), self._stamp)

    def with_toolchain(self, word: str) -> Workspace:
        """Return a workspace with the same directory and store, and with the toolchain of `iree=WORD`.

        Both workspaces use the same connection to the store's database: if the disk is full, no second connection can
        be opened (see `Database._open`)."""
        other = Workspace(self.root, {**self.values, "iree": word}, say=self.say)
        other.store = self.store
        return other

    def close(self) -> None:
        if "store" in self.__dict__:
            self.store.records.close()

    @cached_property
    def plan(self) -> Plan:
        """The cases that specs and variables request. Cases that cannot run here are skips.

        Raises:
            SpecError: a spec or variable is wrong, or there are no specs.
            NothingMatched: no sweep has the given operation or tag.
            ToolchainError: neither `TARGETS` nor the compiler knows a spec's target.
        """
        sources = Sources(self.root, self.values, self._seen)
        tags = () if sources.adhoc else self.values.get("tags", ())
        sweeps = sources.sweeps()
        _ = self._own_known  # a wrong entry is reported before anything is built
        plan.check_tags(sweeps, tags)
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
        """Return why the case is impossible with this toolchain or on this machine; None if it is possible."""
        operation, target, syntax = case.operation, case.target, self._syntax
        if reason := target.inexpressible(syntax) or case.tuning.inexpressible(syntax, target):
            return reason
        if missing := next((name for name in case.packages if self._library(name) is None), None):
            return f"{missing} is not installed; {case.packages[missing]}"
        if case.cache == COLD:
            library = case.provider if case.library else None
            if reason := not_coldable(operation, library, target, self._cache_bytes, self._memory_bytes):
                return reason
        if case.threads is not None and case.threads > (cores := len(machine.cores())):
            return f"{case.threads} threads; this machine has {cores} cores"
        if (size := self._needed_bytes(operation)) > (has := self._memory_bytes):
            return f"verification needs about {units.size(size)} of memory; this machine has {units.size(has)}"
        return None

    def _needed_bytes(self, program: Workload) -> int:
        """Estimate the memory, in bytes, that verification needs; 0 (unknown) for a user's module."""
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
        # Without `iree=` the plan needs no store, so `doit list` works in a directory that is not writable.
        return syntax_of(self.toolchain.version) if "iree" in self.values else NEWEST

    @cached_property
    def toolchain(self) -> Toolchain:
        word, limits = self.values.get("iree", "current"), self.settings.limits
        return toolchain.find(self.store, word, self.say, self._stamp, limits)

    @property
    def toolchain_words(self) -> list[str]:
        """The names of all available toolchains: `current`, fetched releases, and the value of `iree=`."""
        given = [self.values["iree"]] if "iree" in self.values else []
        return list(dict.fromkeys(["current", *releases.fetched_versions(self.store), *given]))

    def _stamp(self, path: str) -> str:
        return self._seen.look("stamp", path) if self._seen else stamp(path)

    @cached_property
    def host(self) -> HostCpu:
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
        """The known failures of IREE in the specs and in dispatchflow's list; none with `known_failures=off`.

        Raises:
            SpecError: an entry is wrong.
        """
        off = self.values.get("known_failures") == "off"
        entries = () if off else (*self._own_known, *shipped())
        return KnownFailures(entries, self.toolchain.version, self._log, self._features)

    def _features(self, target: Target) -> list[str]:
        """Return the CPU features of a target, such as `avx512f`; an empty list for a GPU or vmvx."""
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
        unfit = None if device.absent else target.not_on(device.architecture)
        return replace(device, absent=unfit) if unfit else device

    def noisy_above(self, case: Case) -> float:
        """Return a limit: a case is marked as noisy if the uncertainty of its median is larger.

        The uncertainty is half the width of the median's interval, divided by the median. The default is 0.05."""
        if self.settings.noisy is not None:
            return self.settings.noisy
        return (
            self.plan.noisy.get(case, NOISY) if self.plan.noisy else NOISY
        )  # the check avoids hashing the case, which is slow

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
