"""Execute actions and record their results. An action is one step of the work, such as a compile.

An action is executed only if the store has no valid record of it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from dispatchflow.engine.actions import Action
from dispatchflow.engine.call import ModuleCall, Result, as_is, failed, log_of
from dispatchflow.engine.resolver import Resolver
from dispatchflow.errors import ToolError
from dispatchflow.iree import command_lines, configurations, vmfb
from dispatchflow.iree.configurations import Applied
from dispatchflow.iree.targets import Device
from dispatchflow.keys import Digest, digest_of
from dispatchflow.store import disk
from dispatchflow.store.entries import Record
from dispatchflow.store.facts import Facts
from dispatchflow.store.store import Store
from dispatchflow.tools import processes
from dispatchflow.tools.limits import Limits
from dispatchflow.tools.outcome import Outcome
from dispatchflow.tools.toolchain import environment_of
from dispatchflow.tunings import GIVEN, TuningFile


class ActionExecutor:
    """Several threads may share an executor, and several processes may share its store."""

    def __init__(self, store: Store, resolver: Resolver, run: str) -> None:
        self.store, self.resolver, self.run = store, resolver, run

    @property
    def limits(self) -> Limits:
        return self.resolver.settings.limits

    def place(self, scratch: Path, device: Device, files: Mapping[str, Digest]) -> ModuleCall:
        self.store.place(scratch, files)
        environment = command_lines.device_environment(os.environ)
        return ModuleCall(self.store, self.resolver.toolchain, environment, self.limits, scratch, device)

    def make(self, action: Action, make: Callable[[Path], Result]) -> Record:
        """Return the record of `action`. If no valid record exists, call `make` and record its result.

        `make` gets a directory, in which it executes the action. The record of a failure is not valid if
        `Resolver.reason_to_retry` returns a reason to try the action again."""
        if (known := self._standing(action)) is not None:
            return known
        with self.store.lock(action.key):
            # Another process may have added the record before this process had the lock.
            if (known := self._standing(action)) is not None:
                return known
            begin = time.monotonic()
            with self.store.busy(), self.store.scratch() as scratch:
                try:
                    ok, reason, outputs, facts = make(scratch)
                except ToolError as error:
                    ok, reason, outputs, facts = False, error.problem, {}, {}
                except OSError as error:
                    ok, reason, outputs, facts = False, str(error), {}, {"repeatable": False}
                if not ok:
                    disk.check(self.store.root, reason or "")
            record = Record(
                action.key, action.stage, ok, reason, outputs, facts,
                ingredients=action.ingredients, cost_s=time.monotonic() - begin, run=self.run, at=time.time(),
            )  # fmt: skip
            self.store.records.add(record)
            return record

    def _standing(self, action: Action) -> Record | None:
        record = self.store.records.get(action.key)
        return None if record is None or self.resolver.reason_to_retry(record) else record

    def run_compiler(self, argv: tuple[str, ...], scratch: Path, stdin: str | None) -> Outcome:
        environment = environment_of(self.resolver.toolchain, self.resolver.environment) | command_lines.COMPILING
        command = processes.Command(
            argv, scratch, environment, stdin=stdin,
            time_limit_s=self.limits.compile_s, memory_limit_bytes=self.limits.memory_bytes,
        )  # fmt: skip
        return processes.run(command)

    def compile_module(
        self,
        text: bytes,
        flags: Sequence[str],
        demanded: str | None = None,
        missed: Callable[[Applied], str | None] = lambda found: None,
        files: Sequence[TuningFile] = (),
        objects: Mapping[str, Digest] = MappingProxyType({}),
        explain: Callable[[str, str], str] = as_is,
    ) -> Record:
        """Compile a module and record its vmfb, and the lowering configurations that the compiler chose.

        Args:
            text: the module as MLIR text.
            demanded: the configuration that the compiler must choose, as text; None if it may choose any.
            missed: checks the chosen configurations, and returns an error message or None.
            files: files to which the flags refer.
            objects: files to which the text refers: a mapping from name to digest.
            explain: takes the compiler's log and its error message, and returns the message to record.
        """

        def make(scratch: Path) -> Result:
            (scratch / "module.mlir").write_bytes(text)
            for file in files:
                (scratch / file.name).write_text(file.text, encoding="utf-8", newline="")
            self.store.place(scratch, objects)
            to = command_lines.dump_of(text)
            argv = command_lines.compile_argv(self.resolver.toolchain.compiler, flags, dump=to)
            outcome = self.run_compiler(argv, scratch, "module.mlir")
            given = {file.name: self.store.put_file(scratch / file.name) for file in files} | dict(objects)
            outputs = log_of(self.store, scratch) | given
            facts: Facts = {"compile_s": outcome.wall_s, "compiler_peak_bytes": outcome.peak_bytes}
            if outcome.failure:
                ok, reason, outputs, facts = failed("compile", outcome, scratch, facts, self.store, self.limits)
                told = explain(processes.shortened(scratch / "stderr"), reason or "")
                return ok, told, outputs | given, facts
            made = scratch / "module.vmfb"
            if not _is_regular(made):
                return False, "the compiler exited with code 0 but wrote no module", outputs, facts
            inspected = vmfb.inspect(made.read_bytes())
            dump = dumped(scratch, to).decode(errors="replace")
            given_dumps = sorted(filter(_is_regular, (scratch / GIVEN).rglob("*.mlir")))
            found = configurations.parse(dump, "".join(path.read_text(errors="replace") for path in given_dumps))
            outputs |= {"vmfb": self.store.put_file(made), "configurations": self.store.put_bytes(dump.encode())}
            if inspected.code_digest is not None:
                facts["code_digest"] = inspected.code_digest
            facts |= {
                "code_bytes": inspected.code_bytes,
                "applied": found.text,
                "dispatches": [(executable.name, executable.text) for executable in found.executables],
            }
            reason = inspected.problem or missed(found)
            return reason is None, reason, outputs, facts

        return self.make(self.resolver.compilation(digest_of(text), tuple(flags), demanded), make)


def dumped(scratch: Path, to: str) -> bytes:
    """Return the lowering configurations that the compiler dumped.

    `to` is the value that `command_lines.dump_of` returned for this compile: a directory in `scratch`, or `-` for
    stdout."""
    files = [scratch / "stdout"] if to == "-" else sorted(filter(_is_regular, (scratch / to).glob("*")))
    return b"".join(path.read_bytes() for path in files)


def _is_regular(path: Path) -> bool:
    # A pipe would block, and a link's target may change.
    return path.is_file() and not path.is_symlink()
