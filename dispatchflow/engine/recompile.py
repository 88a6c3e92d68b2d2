"""Compile a case again with flags that make the compiler write more, such as the module of each phase.

This compile is called the second compile. The first compile is the usual one, whose code is verified and measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dispatchflow.cases.case import Case
from dispatchflow.cases.module import Module
from dispatchflow.engine import actions
from dispatchflow.engine.call import Result, failed, log_of
from dispatchflow.engine.stages import StageExecutor
from dispatchflow.errors import ToolError
from dispatchflow.iree import command_lines, vmfb
from dispatchflow.keys import Digest, Key
from dispatchflow.store.entries import Record
from dispatchflow.tools import processes
from dispatchflow.tools.outcome import Outcome
from dispatchflow.tools.toolchain import environment_of

VERSION = 1
"""The version of the second compile's outputs. Raise it if the outputs change."""

_STREAM_BYTES = 1 << 42
"""The largest size of the text that the compiler may print. No real compile reaches this limit.

The limit is high because the compiler may print the module after each pass."""

_CODE = "module.vmfb"
_OTHER_CODE = "this compile gave other code than the case's own, so what is shown is not about the case's code"


@dataclass(frozen=True, slots=True)
class Source:
    """The case's module as `text`, and the key of the usual compile as `compile`."""

    text: bytes
    objects: dict[str, Digest]
    """A dict from file name to digest, for the files to which the text refers."""
    compile: Key
    code: Digest | None
    """The code digest of the usual compile; None if that compile wrote no code."""


def source_of(executor: StageExecutor, case: Case) -> Source:
    """Compile a case as usual, and return what a second compile needs.

    Raises:
        ToolError: the compiler cannot parse the module, or the module does not have the case's function. Other
            failures of the usual compile raise no error.
    """
    program, objects = case.operation, dict[str, Digest]()
    executor.emit(case)  # store the text that the compile's record names
    record = executor.compile(case)
    if isinstance(program, Module):
        printed = executor.printed(program)
        if printed is None or record is None:
            step = executor.resolver.chain(case).failure
            raise ToolError(f"{case.name} cannot be read", {"found": step.why if step else "the compiler refuses it"})
        text, objects = printed.text, printed.objects
    else:
        text = case.dispatch.module(executor.resolver.syntax).encode()
    assert record is not None
    return Source(text, objects, record.key, record.facts.get("code_digest"))


@dataclass(frozen=True, slots=True)
class Recompile:
    """Executes and records second compiles of a case."""

    executor: StageExecutor
    case: Case
    source: Source
    output: str = _CODE
    variables: tuple[tuple[str, str], ...] = ()
    """Additional variables of the compiler's environment. They enter the key of the compile."""

    def record(self, kind: str, flags: Sequence[str], take: Callable[[Path], dict[str, Digest]]) -> Record:
        """Compile the case with the additional `flags`, and return the record of this compile.

        `kind` is the kind of the recorded action, such as `phases`. `take` stores the outputs: it takes the
        compiler's working directory, and returns a dict from output name to digest."""

        def make(scratch: Path) -> Result:
            outcome = self.run(scratch, flags)
            ok, reason, outputs, facts = self._judged(scratch, outcome)
            outputs |= take(scratch)
            if kind == "passes":
                outputs.pop("log", None)  # it is a part of passes.txt
            return ok, reason, outputs, facts | {"compile_s": outcome.wall_s}

        return self.executor.make(self._action(kind, flags), make)

    def _action(self, kind: str, flags: Sequence[str]) -> actions.Action:
        return actions.single(
            kind, compile=self.source.compile, more=tuple(flags), variables=self.variables, version=VERSION
        )

    def _judged(self, scratch: Path, outcome: Outcome) -> Result:
        executor, own = self.executor, self.source.code
        if outcome.failure:
            return failed("compile", outcome, scratch, {}, executor.store, executor.limits)
        log = log_of(executor.store, scratch)
        if own is None or self.output != _CODE:
            return True, None, log, {}
        made = vmfb.inspect((scratch / self.output).read_bytes()).code_digest
        return True, None, log, {} if made == own else {"doubt": _OTHER_CODE}

    def run(self, scratch: Path, flags: Sequence[str]) -> Outcome:
        executor = self.executor
        for file in self.case.dispatch.tuning.files:
            (scratch / file.name).write_text(file.text, encoding="utf-8", newline="")
        (scratch / "module.mlir").write_bytes(self.source.text)
        executor.store.place(scratch, self.source.objects)
        resolver = executor.resolver
        argv = command_lines.compile_argv(
            resolver.toolchain.compiler,
            (*resolver.flags(self.case), *flags),
            self.output,
            command_lines.dump_of(self.source.text),
        )
        environment = (
            environment_of(resolver.toolchain, resolver.environment) | command_lines.COMPILING | dict(self.variables)
        )
        command = processes.Command(
            argv, scratch, environment, stdin="module.mlir", output_limit_bytes=_STREAM_BYTES,
            time_limit_s=executor.limits.compile_s, memory_limit_bytes=executor.limits.memory_bytes,
        )  # fmt: skip
        return processes.run(command)
