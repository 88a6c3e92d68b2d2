"""One directory with specs, one store, one invocation: everything that commands work on, made when first asked for."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from dispatchflow import commands, devices, installed, machine, meant, module_spec, plan, spec, toolchain, variables
from dispatchflow.ceilings import Ceilings
from dispatchflow.chain import Chain
from dispatchflow.dispatch import Case
from dispatchflow.dodo_file import store_path
from dispatchflow.errors import NothingMatched, SpecError, suggestion
from dispatchflow.execute import Executor
from dispatchflow.keys import digest_of
from dispatchflow.location import COMMAND_LINE
from dispatchflow.locks import Machine
from dispatchflow.measure import Bench
from dispatchflow.module import Module
from dispatchflow.operations import DIMS, Operation
from dispatchflow.plan import Plan, Skip
from dispatchflow.program import Program
from dispatchflow.recall import Recall
from dispatchflow.reports import units
from dispatchflow.resolver import Resolver, Settings
from dispatchflow.rotation import COLD, not_coldable
from dispatchflow.stamps import ABSENT, stamp
from dispatchflow.store import Store
from dispatchflow.syntax import NEWEST, Syntax, syntax_of
from dispatchflow.targets import TARGETS, Device, Target

# The reference holds each element as itself, as float64, and as its magnitude.
_REFERENCE_BYTES = 24
_DIMS_HINT = "Dims, shape= or file= make a sweep of their own, without specs: give one of the two."


class Workspace:
    """`root` holds the spec folder, the store and the view; `values` are the parsed variables. `seen` is told what
    is looked at."""

    def __init__(self, root: Path, values: Mapping[str, Any], seen: Recall | None = None) -> None:
        self.root, self.values, self._seen = root, values, seen
        self.settings: Settings = variables.settings(values, machine.memory_bytes())
        self.began, self.began_monotonic = time.time(), time.monotonic()
        # Chance, since clocks are set back and containers count processes from 1: parts and the newest are named by it.
        self.run = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(self.began))}-{os.urandom(4).hex()}"
        self.lock = Machine()

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

    def close(self) -> None:
        if "store" in self.__dict__:
            self.store.records.close()

    @cached_property
    def plan(self) -> Plan:
        """The cases of specs and variables. What this machine has too few cores or memory for is a skip.

        Raises:
            SpecError: a spec or variable that is wrong, or no specs.
            NothingMatched: specs without a sweep, or none of this operation or tag.
        """
        tags = () if self._adhoc else self.values.get("tags", ())
        sweeps = self._sweeps()
        known = dict.fromkeys(tag for sweep in sweeps for tag in sweep.tags)
        if tags and not set(tags) & set(known):
            facts = {"given": ", ".join(tags), "tags": ", ".join(known) or "none"}
            raise NothingMatched("no sweep has this tag", facts, suggestion(tags[0], known))
        for target in dict.fromkeys(target for sweep in sweeps for target in sweep.targets):
            if target.name not in TARGETS:
                devices.features(target, self.toolchain, self.store, self.settings.limits)
        found = plan.expand(sweeps, tags)
        fits, skips = list[Case](), list[Skip]()
        for case in found.cases:
            if (reason := self._lacking(case)) is None:
                fits.append(case)
            else:
                skips.append(Skip(case.name, reason, ""))
        return Plan(tuple(fits), found.tags, (*found.skips, *skips), found.notes)

    def _lacking(self, case: Case) -> str | None:
        """Why this toolchain or this machine cannot have it."""
        operation, target, syntax = case.operation, case.target, self._syntax
        types = operation.types if isinstance(operation, Operation) else None
        if reason := target.inexpressible(syntax, types) or case.tuning.inexpressible(syntax, target):
            return reason
        if isinstance(operation, Operation):
            if reason := operation.inexpressible(syntax, target):
                return reason
            if case.dispatch.requested is None and (reason := operation.untuned(syntax, target)):
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

    def _needed_bytes(self, program: Program) -> int:
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

    @property
    def _adhoc(self) -> bool:
        return any(word in self.values for word in (*DIMS, "shape", *variables.MODULE))

    def _sweeps(self) -> list[spec.Sweep]:
        words = {name: self.values[name] for name in variables.AXES if name in self.values}
        named = self.values.get("operation", ())
        if self._adhoc:
            if "specs" in self.values:
                raise SpecError(
                    "specs= and a sweep are both given", {"specs": ", ".join(self.values["specs"])}, _DIMS_HINT
                )
            own = {name: self.values[name] for name in (*DIMS, "shape", *variables.MODULE) if name in self.values}
            own |= {name: list(value) for name, value in own.items() if isinstance(value, tuple)}
            each: list[dict[str, str]]
            if named:
                each = [{"operation": name} for name in named]
            elif set(own) & set(variables.MODULE):
                each = [{"operation": Module.name}]
            elif dims := [name for name in own if name in DIMS]:
                each = [{"operation": meant.by_dims(dims, words)}]
            else:
                meaning = meant.by_shapes(own["shape"], words)
                each = [{"operation": name, "shape": having} for name, having in meaning.items()]
            table = {"tags": list(self.values.get("tags", ())), **words, **own}
            read = self._reader(Path())
            return [spec.sweep({**table, **one}, COMMAND_LINE, read) for one in each]
        sweeps = [
            sweep
            for path in self._spec_files()
            for sweep in spec.parse(self._text(path), _relative(path, self.root), words, self._reader(path.parent))
        ]
        if not sweeps:
            facts = {"read": ", ".join(os.fspath(_relative(path, self.root)) for path in self._spec_files())}
            raise NothingMatched(
                "the specs have no sweep", facts, "Add a [[sweep]], or give dims: doit m=512 n=512 k=512."
            )
        found = [sweep for sweep in sweeps if not named or sweep.operation.name in named]
        if not found:
            facts = {
                "given": ", ".join(named),
                "operations": ", ".join(dict.fromkeys(s.operation.name for s in sweeps)),
            }
            raise NothingMatched(
                "no sweep of the specs has this operation", facts, "Give a sweep here: shape=tiny, or dims."
            )
        return found

    def _spec_files(self) -> list[Path]:
        named = [self.root / word for word in self.values.get("specs", ("specs",))]
        files = []
        for path in named:
            if not path.exists():
                hint = "Make a specs/ directory with a TOML file, or give dims: doit m=512 n=512 k=512."
                raise SpecError("there are no specs here", {"looked for": path}, hint)
            if path.is_dir():
                self._stamp(_from_anywhere(path))
                files += sorted(path.glob("*.toml"))
            else:
                files.append(path)
        if not files:
            raise SpecError(
                "there are no specs here", {"looked for": f"{named[0]}/*.toml"}, "Add a TOML file with a [[sweep]]."
            )
        return files

    def _reader(self, folder: Path) -> module_spec.Read:
        def read(name: str) -> tuple[str, bytes]:
            path = folder / name
            return _plain(path), self._bytes(path)

        return read

    def _text(self, path: Path) -> str:
        try:
            return self._bytes(path).decode("utf-8-sig")  # a mark that some editors put first is no text
        except (OSError, UnicodeDecodeError) as error:
            raise SpecError(
                "this spec cannot be read", {"spec": path, "found": error}, "A spec is a TOML file in UTF-8."
            ) from error

    def _bytes(self, path: Path) -> bytes:
        """Raises:
        OSError: it cannot be read, or is no regular file: reading a pipe waits for its writer.
        """
        content = None
        try:
            if path.exists() and not path.is_file():
                raise OSError("it is no regular file")
            content = path.read_bytes()
        finally:
            if self._seen:
                self._seen.see("file", _from_anywhere(path), ABSENT if content is None else digest_of(content))
        return content

    @cached_property
    def _syntax(self) -> Syntax:
        # A plan without another toolchain needs no store: `doit list` of a directory that cannot be written.
        return syntax_of(self.toolchain.version) if "iree" in self.values else NEWEST

    @cached_property
    def toolchain(self) -> toolchain.Toolchain:
        word, limits = self.values.get("iree", "current"), self.settings.limits
        return toolchain.find(self.store, word, self.say, self._stamp, limits)

    def _stamp(self, path: str) -> str:
        return self._seen.look("stamp", path) if self._seen else stamp(path)

    def say(self, line: str) -> None:
        """Of something that takes long before anything else can be shown."""
        print(line, flush=True)

    @cached_property
    def resolver(self) -> Resolver:
        return Resolver(
            self.store.records,
            self.toolchain,
            devices.host_cpu(self.store, self.toolchain, self.settings.limits),
            commands.environment(os.environ),
            self.settings,
            self.device,
            self.began,
            self.run,
            self._library,
            self._cache_bytes,
        )

    @cached_property
    def _devices(self) -> dict[tuple[str, int | None], Device]:
        return {}

    def device(self, target: Target, threads: int | None) -> Device:
        place = (target.name if target.has_threads else target.driver, threads)
        if place not in self._devices:
            limits = self.settings.limits
            self._devices[place] = found = devices.of_target(target, threads, self.toolchain, self.store, limits)
            if self._seen and not target.has_threads:
                asked = (target.driver, self.toolchain.tool("iree-run-module"), limits.run_s, limits.memory_bytes)
                self._seen.see("driver", json.dumps(asked), repr(found))
        return self._devices[place]

    @cached_property
    def executor(self) -> Executor:
        return Executor(self.store, self.resolver, self.lock, self.run)

    @cached_property
    def bench(self) -> Bench:
        return Bench(self.store, commands.device_environment(os.environ), self.lock, self.settings.limits)

    @cached_property
    def ceilings(self) -> Ceilings:
        return Ceilings(self.store, self.toolchain, self.executor)

    def chains(self, cases: Sequence[Case]) -> list[Chain]:
        return self.resolver.chains(cases)


def _from_anywhere(path: Path) -> str:
    """Absolute, its `..` as they stand: behind a link they lead elsewhere than the text says (not os.path.abspath)."""
    return os.path.join(os.getcwd(), path)  # noqa: PTH109, PTH118 (of two strings)


def _plain(path: Path) -> str:
    """Without `folder/..`, where that is the same file."""
    plain = os.path.normpath(path)
    return plain if os.path.realpath(plain) == os.path.realpath(path) else os.fspath(path)


def _relative(path: Path, root: Path) -> Path:
    return path.relative_to(root) if path.is_relative_to(root) else path
