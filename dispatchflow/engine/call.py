"""Call the compiled module of a case, or a library such as numpy that computes the case."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dispatchflow.cases.case import Case
from dispatchflow.cases.provider import operand_types
from dispatchflow.engine.actions import Data
from dispatchflow.iree import command_lines, parameters, run_output
from dispatchflow.iree.targets import Device
from dispatchflow.iree.toolchain import Toolchain
from dispatchflow.keys import Digest
from dispatchflow.libraries import calls
from dispatchflow.libraries.installed import Installed
from dispatchflow.store import disk
from dispatchflow.store.facts import Facts
from dispatchflow.store.store import Store
from dispatchflow.tools import processes
from dispatchflow.tools.limits import Limits
from dispatchflow.tools.outcome import Outcome

_SEARCHED = 100_000  # the number of characters of a tool's stderr that are searched: half at its start, half at its end

Result = tuple[bool, str | None, dict[str, Digest], Facts]
"""The result of an action, which is one step of the work, such as a compile.

It is a tuple with four parts:

- whether the action succeeded;
- why it failed; None if it succeeded;
- a dict from the name of each output to the output's digest;
- facts, which are other values to record."""


@dataclass(frozen=True, slots=True)
class ModuleCall:
    """A compiled module in a directory, and the device and the tools that call the module.

    The module is the file `module.vmfb` in the temporary directory `scratch`."""

    store: Store
    toolchain: Toolchain
    environment: Mapping[str, str]
    limits: Limits
    scratch: Path
    device: Device

    def again(self) -> ModuleCall | None:
        """Return a second call that checks the results of this one.

        The subclass `LibraryCall` returns None instead."""
        return PoisonedCall(self.store, self.toolchain, self.environment, self.limits, self.scratch, self.device)

    def call(self, data: Data, recipe: str, outputs: Sequence[str], function: str) -> Result | None:
        """Call `function`, and write its results to the files named in `outputs`, in the directory `scratch`.

        The function's inputs are the set `recipe` in `data`. Returns None if the call succeeds. Otherwise returns the
        `Result` of the failure."""
        missing = {name: digest for name, digest in data.files(recipe).items() if not (self.scratch / name).exists()}
        self.store.place(self.scratch, missing)  # a second call reuses the files of the first
        command = processes.Command(
            self.argv(data, recipe, outputs, function), self.scratch, self.environment,
            time_limit_s=self.limits.run_s, memory_limit_bytes=self.limits.memory_bytes,
        )  # fmt: skip
        outcome = processes.run(command)
        if outcome.failure is None:
            return None
        facts: Facts = {"verification": "not compared", **self.ran_with}
        ok, reason, outs, facts = failed("run", outcome, self.scratch, facts, self.store, self.limits)
        return ok, f"{reason}{self._given_instead(reason or '', data)}", outs, facts

    def _given_instead(self, reason: str, data: Data) -> str:
        """Return a hint such as `; nearest weights: 'w1'` if a weight or a scope is missing.

        `reason` is the error message of the failed call. The hint is empty for other errors."""
        tool = self.toolchain.tool(parameters.TOOL)
        if not data.parameters or not Path(tool).exists():
            return ""
        argv = parameters.listing_argv(tool, [value for value, _ in data.parameters])
        command = processes.Command(argv, self.scratch, self.environment, time_limit_s=self.limits.run_s)
        _, listing, _ = processes.answer(command)
        return parameters.given_instead(reason, parameters.listed(listing))

    def result_types(self, data: Data, function: str) -> dict[int, str] | Result:
        """Return a dict from the index of each tensor result to its type, such as `4x8xf32`.

        The module is called again without output files, because only such a call prints sizes. If this call
        fails, its `Result` is returned."""
        # Files in the format `.npy` have sizes, but no bf16 and no floating-point types of 8 or 4 bits.
        if (failure := self.call(data, "given", (), function)) is not None:
            ok, reason, outputs, facts = failure
            return ok, f"the call that prints the results' sizes: {reason}", outputs, facts
        return run_output.result_types((self.scratch / "stdout").read_text(encoding="utf-8", errors="replace"))

    @property
    def doubt_as_reference(self) -> str | None:
        """The reason to doubt a verification that compares a library with itself; None for compiled code."""
        return None

    @property
    def ran_with(self) -> Facts:
        """The digest of the runtime, which is recorded if the call fails.

        A later run with another runtime tries the failed call again."""
        return {"runtime_digest": self.toolchain.runtime_digest}

    def argv(self, data: Data, recipe: str, outputs: Sequence[str], function: str) -> tuple[str, ...]:
        return command_lines.run_argv(
            self.toolchain.tool("iree-run-module"),
            "module.vmfb",
            self.device_flags,
            data.inputs(recipe),
            outputs,
            function,
            [value for value, _ in data.parameters],
        )

    @property
    def device_flags(self) -> tuple[str, ...]:
        return command_lines.device_flags(self.device.uri, self.device.cpus)

    def log(self) -> dict[str, Digest]:
        return log_of(self.store, self.scratch)


@dataclass(frozen=True, slots=True)
class PoisonedCall(ModuleCall):
    """A call in which new memory is filled with the byte 0xCD.

    The memory is filled only on CPU devices (see `command_lines.poisoned`)."""

    @property
    def device_flags(self) -> tuple[str, ...]:
        return command_lines.poisoned(command_lines.device_flags(self.device.uri, self.device.cpus))


@dataclass(frozen=True, slots=True)
class LibraryCall(ModuleCall):
    """A call of a library such as numpy that computes a case, instead of a call of compiled code.

    The directory `scratch` has a Python program that calls the library, or a model with its weights."""

    case: Case
    installed: Installed

    @staticmethod
    def of(place: ModuleCall, case: Case, installed: Installed) -> LibraryCall:
        return LibraryCall(
            place.store, place.toolchain, place.environment, place.limits, place.scratch, place.device, case, installed
        )

    def again(self) -> None:
        """Return None: a library's call is not repeated to check its results."""

    @property
    def ran_with(self) -> Facts:
        return {}  # the library's version is in the code's digest

    def argv(self, data: Data, recipe: str, outputs: Sequence[str], function: str) -> tuple[str, ...]:
        call = library_argv(self.case, self.installed, self.device, data, recipe)
        return (*call, *(f"--output={name}" for name in outputs))

    def result_types(self, data: Data, function: str) -> dict[int, str] | Result:
        return dict(enumerate(json.loads((self.scratch / "stdout").read_text(encoding="utf-8"))))

    @property
    def doubt_as_reference(self) -> str:
        own = f"{self.case.provider} computed the expected results too, without optimizations"
        return f"{own}; another reference= makes it comparable"


def library_argv(case: Case, installed: Installed, device: Device, data: Data | None, recipe: str) -> tuple[str, ...]:
    """Return the command line of a library's call.

    `recipe` is the name of the set of inputs that the call gets. The types of a model's inputs are taken from `data`.
    If `data` is None, the model is called without inputs."""
    program = case.library_program
    assert program is not None
    tensors = operand_types(case.operation, data.arguments if data else ())
    return calls.call_argv(case.provider, installed, program.main, device, tensors, recipe)


def as_is(log: str, reason: str) -> str:
    return reason


def log_of(store: Store, scratch: Path) -> dict[str, Digest]:
    """Store what a tool wrote to stderr, and return the dict `{"log": digest of the text}`.

    The dict is empty if the tool wrote nothing to stderr."""
    log = scratch / "stderr"
    return {"log": store.put_bytes(log.read_bytes())} if log.exists() and log.stat().st_size else {}


def failed(what: str, outcome: Outcome, scratch: Path, facts: Facts, store: Store, limits: Limits) -> Result:
    """Return the result of an action whose tool failed.

    Args:
        what: the name of the failed step, such as `compile`; or a phrase that begins with `cannot`.
        scratch: the directory with the tool's stderr, which is stored.
        facts: facts to record. This function adds the fact `repeatable`, which says whether a repetition would fail
            too. If a time or memory limit may be the cause, it adds the fact `limit`: the limit's name and value.

    Raises:
        StoreError: the disk is full.
    """
    stderr = processes.shortened(scratch / "stderr", _SEARCHED)
    disk.check(store.root, stderr)
    hit = limits.hit("run_limit" if what == "run" else "compile_limit", outcome.timed_out, stderr)
    reason = reason_of(outcome, stderr)
    facts["repeatable"] = outcome.repeatable
    if hit:
        facts["limit"] = hit.name, hit.value
    problem = what if what.startswith("cannot ") else f"{what} failed"
    return False, f"{problem}: {hit.reason(reason) if hit else reason}", log_of(store, scratch), facts


def reason_of(outcome: Outcome, stderr: str) -> str | None:
    """Return why a tool failed, in one line: the signal that killed it, if any, and its error message."""
    head = _BACKTRACE.split(stderr, maxsplit=1)[0]
    said = _first_error(head)
    if outcome.code >= 0 or outcome.timed_out:
        return said or outcome.failure
    return f"{outcome.failure}: {said}" if said else outcome.failure


_BACKTRACE = re.compile(r"^(PLEASE submit|Please report issues|Stack dump|\s*#?0 .*0x[0-9a-f]{8})", re.MULTILINE)
"""The beginning of LLVM's crash report. The report does not contain the cause of the crash."""

_UNSPECIFIC = "failed to run translation of source executable"
"""An error line that does not state the cause. IREE may print this line before the cause."""


_STATUS = re.compile(r"(?:^|: )([A-Z][A-Z_]{4,}; .+)", re.MULTILINE)
"""The runtime's status of a failed call, such as `x.c:191: INVALID_ARGUMENT; …`."""

_CALLED = re.compile(r"; (?:; |while |invoking )")
"""A pattern for the text between the status and the list of callers in the runtime's error message."""


def _first_error(stderr: str) -> str | None:
    if match := re.search(r"(Unknown command line argument '.*?'|for the --.* option: .*)", stderr):
        return match[1]  # the next line may be a suggestion
    # Only locations in the user's own file are kept, because the user can fix that file.
    told = re.findall(r"(?:source\.mlir:(\d+:\d+: ))?error: (.+)", stderr, re.IGNORECASE)
    found = [f"{place}{text}" for place, text in told]
    if found:
        return next((line for line in found if not line.startswith(_UNSPECIFIC)), found[0]).rstrip(": ")[:300]
    if status := _STATUS.search(stderr):
        return parameters.hinted(_CALLED.split(status[1], maxsplit=1)[0].rstrip("; ")[:300])
    lines = stderr.splitlines()
    return lines[-1][:300] if lines else None
