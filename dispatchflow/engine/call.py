"""One call of a compiled module or of a library: its files, its command line, the results that it wrote."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dispatchflow.cases.case import Case
from dispatchflow.cases.provider import operand_types
from dispatchflow.engine.actions import Data
from dispatchflow.iree import command_lines
from dispatchflow.iree.targets import Device
from dispatchflow.iree.toolchain import Toolchain
from dispatchflow.keys import Digest
from dispatchflow.libraries import calls
from dispatchflow.libraries.installed import Installed
from dispatchflow.store import disk
from dispatchflow.store.store import Store
from dispatchflow.tools import processes
from dispatchflow.tools.limits import Limits
from dispatchflow.tools.outcome import Outcome

_SEARCHED = 100_000  # characters of a tool's stderr, half of them from its end

Result = tuple[bool, str | None, dict[str, Digest], dict[str, Any]]
"""What executing an action gives: (ok, reason, outputs, facts)."""


@dataclass(frozen=True, slots=True)
class ModuleCall:
    """Where a module is called: a scratch directory with its `module.vmfb`, a device, that device's tools."""

    store: Store
    toolchain: Toolchain
    environment: Mapping[str, str]
    limits: Limits
    scratch: Path
    device: Device

    def again(self) -> ModuleCall | None:
        """Where the second call runs, as `command_lines.poisoned` says it; None where nothing is called twice."""
        return PoisonedCall(self.store, self.toolchain, self.environment, self.limits, self.scratch, self.device)

    def call(self, data: Data, recipe: str, outputs: Sequence[str], function: str) -> Result | None:
        """Writes the results as `outputs` into the scratch directory. None when it went well, else the failure."""
        missing = {name: digest for name, digest in data.files(recipe).items() if not (self.scratch / name).exists()}
        self.store.place(self.scratch, missing)  # a second call finds those of the first
        command = processes.Command(
            self.argv(data, recipe, outputs, function), self.scratch, self.environment,
            time_limit_s=self.limits.run_s, memory_limit_bytes=self.limits.memory_bytes,
        )  # fmt: skip
        outcome = processes.run(command)
        if outcome.failure is None:
            return None
        facts = {"verification": "not compared", **self.ran_with}
        return failed("run", outcome, self.scratch, facts, self.store, self.limits)

    @property
    def ran_with(self) -> dict[str, Any]:
        """Of a failure: what another one of may do better."""
        return {"runtime_digest": self.toolchain.runtime_digest}

    def argv(self, data: Data, recipe: str, outputs: Sequence[str], function: str) -> tuple[str, ...]:
        return command_lines.run_argv(
            self.toolchain.tool("iree-run-module"),
            "module.vmfb",
            self.device_flags,
            data.inputs(recipe),
            outputs,
            function,
        )

    @property
    def device_flags(self) -> tuple[str, ...]:
        return command_lines.device_flags(self.device.uri, self.device.cpus)

    def log(self) -> dict[str, Digest]:
        return log_of(self.store, self.scratch)


@dataclass(frozen=True, slots=True)
class PoisonedCall(ModuleCall):
    @property
    def device_flags(self) -> tuple[str, ...]:
        return command_lines.poisoned(command_lines.device_flags(self.device.uri, self.device.cpus))


@dataclass(frozen=True, slots=True)
class LibraryCall(ModuleCall):
    """Where a library is called instead: its `call.py` lies in the scratch directory."""

    case: Case
    installed: Installed

    @staticmethod
    def of(place: ModuleCall, case: Case, installed: Installed) -> LibraryCall:
        return LibraryCall(
            place.store, place.toolchain, place.environment, place.limits, place.scratch, place.device, case, installed
        )

    def again(self) -> None:
        """A library's own memory is no subject here."""

    @property
    def ran_with(self) -> dict[str, Any]:
        return {}  # its version is in the code's digest

    def argv(self, data: Data, recipe: str, outputs: Sequence[str], function: str) -> tuple[str, ...]:
        tensors = operand_types(self.case.operation)
        call = calls.call_argv(self.case.provider, self.installed, self.device, tensors, recipe)
        return (*call, f"--output={outputs[0]}")


def log_of(store: Store, scratch: Path) -> dict[str, Digest]:
    """What a tool said on stderr, as an output; nothing when it was silent."""
    log = scratch / "stderr"
    return {"log": store.put_bytes(log.read_bytes())} if log.exists() and log.stat().st_size else {}


def failed(what: str, outcome: Outcome, scratch: Path, facts: dict[str, Any], store: Store, limits: Limits) -> Result:
    """`what` failed: `compile`, `run`, `reading x.mlir`. With the limit that it ran or may have run into, whose raising
    tries it again.

    Raises:
        StoreError: the disk is full; every case would fail so.
    """
    stderr = processes.shortened(scratch / "stderr", _SEARCHED)
    disk.check(store.root, stderr)
    hit = limits.hit("run_limit" if what == "run" else "compile_limit", outcome.timed_out, stderr)
    reason = reason_of(outcome, stderr)
    facts |= {"repeatable": outcome.repeatable} | ({"limit": (hit.name, hit.value)} if hit else {})
    return False, f"{what} failed: {hit.reason(reason) if hit else reason}", log_of(store, scratch), facts


def reason_of(outcome: Outcome, stderr: str) -> str | None:
    """In one line why a tool failed: what it said of it, after the signal that killed it."""
    head = _BACKTRACE.split(stderr, maxsplit=1)[0]
    said = _first_error(head)
    if outcome.code >= 0 or outcome.timed_out:
        return said or outcome.failure
    return f"{outcome.failure}: {said}" if said else outcome.failure


_BACKTRACE = re.compile(r"^(PLEASE submit|Please report issues|Stack dump|\s*#?0 .*0x[0-9a-f]{8})", re.MULTILINE)
"""Where LLVM's report of a crash begins: nothing after it says why."""

_UNSPECIFIC = "failed to run translation of source executable"
"""What IREE says after the cause, or before it where dispatches are compiled side by side."""


_STATUS = re.compile(r"(?:^|: )([A-Z][A-Z_]{4,}; .+)", re.MULTILINE)
"""What the runtime says of a failed call, `x.c:191: INVALID_ARGUMENT; …`."""

_CALLED = re.compile(r"; (?:; |while |invoking )")
"""Where it goes on with what was called; so do the lines after it."""


def _first_error(stderr: str) -> str | None:
    """The first line that says `error`, without the place, and which one if it can be had; else the runtime's status;
    else the last line."""
    if match := re.search(r"(Unknown command line argument '.*?'|for the --.* option: .*)", stderr):
        return match[1]  # the line after it may guess what was meant
    # Of a user's file the place is told: it is theirs to correct.
    told = re.findall(r"(?:source\.mlir:(\d+:\d+: ))?error: (.+)", stderr, re.IGNORECASE)
    found = [f"{place}{text}" for place, text in told]
    if found:
        return next((line for line in found if not line.startswith(_UNSPECIFIC)), found[0]).rstrip(": ")[:300]
    if status := _STATUS.search(stderr):
        return _CALLED.split(status[1], maxsplit=1)[0].rstrip("; ")[:300]
    lines = stderr.splitlines()
    return lines[-1][:300] if lines else None
