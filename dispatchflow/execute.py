"""Executes actions: look, lock, look again, run, publish objects, record. Failures are records too."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dispatchflow import actions, applied, commands, processes, room, vmfb
from dispatchflow.actions import Action
from dispatchflow.chain import Resolver
from dispatchflow.dispatch import Case
from dispatchflow.errors import StoreError
from dispatchflow.keys import Digest, digest_of
from dispatchflow.locks import Machine
from dispatchflow.operations import Operation
from dispatchflow.records import Record
from dispatchflow.store import DamagedObject, Store
from dispatchflow.targets import Device
from dispatchflow.tunings import Tuning

if TYPE_CHECKING:
    from dispatchflow.operations._base import Array
    from dispatchflow.verdict import Verdict

_log = logging.getLogger(__name__)
_SEARCHED = 100_000  # characters of a tool's stderr, half of them from its end

Data = dict[str, tuple[Digest, ...]]
_Result = tuple[bool, str | None, dict[str, Digest], dict[str, Any]]
"""(ok, reason, outputs, facts)"""


class Executor:
    """Makes what is asked for and everything that it needs. Any thread; any number of invocations at once."""

    def __init__(self, store: Store, resolver: Resolver, machine: Machine, run: str) -> None:
        self.store, self.resolver, self.machine, self.run = store, resolver, machine, run

    def emit(self, case: Case) -> Record:
        text = case.dispatch.module(self.resolver.syntax).encode()

        def make(scratch: Path) -> _Result:
            return True, None, {"module": self.store.put_bytes(text)}, {}

        return self._make(actions.emit(case, self.resolver.syntax), make)

    def compile(self, case: Case) -> Record:
        tuning, operation = case.tuning, case.operation
        return self.compile_module(
            case.dispatch.module(self.resolver.syntax),
            self.resolver.flags(case),
            tuning.requested(operation),
            lambda dump: _ignored(tuning, operation, dump),
        )

    def compile_module(
        self,
        module: str,
        flags: Sequence[str],
        requested: str | None = None,
        ignored: Callable[[str], str | None] = lambda dump: None,
    ) -> Record:
        """A module's vmfb and what the compiler chose for it. `ignored` tells, from the compiler's dump, why the
        configuration that was requested is not the one applied: then the action failed."""
        resolver, text, limits = self.resolver, module.encode(), self.resolver.settings.limits
        digest = digest_of(text)
        action = actions.compilation(digest, flags, resolver.toolchain.digest, resolver.environment, requested)

        def make(scratch: Path) -> _Result:
            (scratch / "module.mlir").write_bytes(text)
            argv = commands.compile_argv(resolver.toolchain.compiler, flags)
            command = processes.Command(
                argv, scratch, resolver.environment, stdin="module.mlir",
                time_limit_s=limits.compile_s, memory_limit_bytes=limits.memory_bytes,
            )  # fmt: skip
            outcome = processes.run(command)
            outputs = self._log(scratch)
            facts: dict[str, Any] = {"compile_s": outcome.wall_s, "compiler_peak_bytes": outcome.peak_bytes}
            if outcome.failure:
                return self._failed("compile", outcome, scratch, facts)
            made = scratch / "module.vmfb"
            if not made.is_file():
                return False, "the compiler left no module, with exit code 0", outputs, facts
            inspected = vmfb.inspect(made.read_bytes())
            dumps = sorted((scratch / commands.CONFIGURATIONS).glob("*"))
            dump = "".join(path.read_text(errors="replace") for path in dumps)
            outputs |= {"vmfb": self.store.put_file(made), "configurations": self.store.put_bytes(dump.encode())}
            facts |= {
                "code_digest": inspected.code_digest,
                "code_bytes": inspected.code_bytes,
                "applied": applied.parse(dump).text,
            }
            reason = inspected.problem or ignored(dump)
            return reason is None, reason, outputs, facts

        return self._make(action, make)

    def inputs(self, operation: Operation) -> Record:
        action, _ = self.resolver.data_actions(operation)

        def make(scratch: Path) -> _Result:
            from dispatchflow import inputs

            made = {"exact": inputs.exact(operation), "random": inputs.random(operation)}
            outputs = {f"{r}_{i}": self._put(array) for r, arrays in made.items() for i, array in enumerate(arrays)}
            return True, None, outputs, {}

        return self._make(action, make)

    def expected(self, operation: Operation) -> Record:
        _, action = self.resolver.data_actions(operation)

        def make(scratch: Path) -> _Result:
            from dispatchflow import inputs, reference

            outputs = {"exact": self._put(reference.expected(operation, inputs.exact(operation)))}
            operands = inputs.random(operation)
            if operation.signature.result.is_float:
                value, tolerance = reference.bounds(operation, operands)
                outputs |= {"reference": self._put(value), "tolerance": self._put(tolerance)}
            else:
                outputs |= {"random": self._put(reference.expected(operation, operands))}
            return True, None, outputs, {}

        return self._make(action, make)

    def artifacts(self, case: Case, expected: bool) -> tuple[Record, Data] | None:
        """The compiled module and the data, every object compared with its digest; None when it did not compile.

        A damaged object is dropped, with its records, where it is noticed, and made anew here.
        """
        for _ in range(3):
            compiled = self.compile(case)
            if not compiled.ok:
                return None
            self.inputs(case.operation)
            if expected:
                self.expected(case.operation)
            data = self.resolver.data(case.operation) if expected else self.resolver.operands(case.operation)
            try:
                if data is not None:
                    for digest in (compiled.outputs["vmfb"], *(d for digests in data.values() for d in digests)):
                        self.store.checked(digest)
                    return compiled, data
            except DamagedObject as damaged:
                _log.warning("object %s of %s was damaged or missing, and is made again", damaged, case.name)
        raise StoreError("objects are damaged as fast as they are made", {"store": self.store.root}, "Check the disk.")

    def verify(self, case: Case, device: Device) -> Record | None:
        """The ladder of docs/verification.md; None when the case did not compile."""
        if (found := self.artifacts(case, expected=True)) is None:
            return None
        compiled, data = found
        action = actions.verification(compiled.facts["code_digest"], data, device.identity, device.threads)
        module = compiled.outputs["vmfb"]
        return self._make(action, lambda scratch: self._verify(scratch, case.operation, device, module, data))

    def _verify(self, scratch: Path, operation: Operation, device: Device, module: Digest, data: Data) -> _Result:
        from dispatchflow import inputs, verdict

        limits = self.resolver.settings.limits
        outputs: dict[str, Digest] = {}
        verdicts: dict[str, Verdict] = {}
        names = {recipe: [f"{recipe}_{i}.bin" for i in range(len(data[recipe]))] for recipe in ("exact", "random")}
        self.store.place(scratch, {"module.vmfb": module})
        for recipe in names:
            self.store.place(scratch, dict(zip(names[recipe], data[recipe], strict=True)))
        for recipe in names:
            if recipe == "exact" and inputs.mistrust(operation):
                verdicts[recipe] = verdict.Verdict("mistrusted")
                continue
            argv = commands.run_argv(
                self.resolver.toolchain.tool("iree-run-module"),
                "module.vmfb",
                commands.device_flags(device.uri, device.cpus),
                commands.input_flags([operand.type for operand in operation.operands()], names[recipe]),
            )
            command = processes.Command(
                argv, scratch, self.resolver.environment,
                time_limit_s=limits.run_s, memory_limit_bytes=limits.memory_bytes,
            )  # fmt: skip
            outcome = processes.run(command)
            if outcome.failure:
                return self._failed("run", outcome, scratch, {"verification": "not compared"})
            output = scratch / "output.bin"
            size = output.stat().st_size if output.exists() else 0
            if size != operation.result().nbytes:
                reason = f"the module wrote {size} B; its result has {operation.result().nbytes}"
                return False, reason, self._log(scratch), {"verification": "not compared"}
            got = _array(output, inputs.dtype_of(operation.result().element), operation)
            found = self._compare(recipe, got, operation, data)
            verdicts[recipe] = found
            if not found.passed:
                outputs[f"got_{recipe}"] = self.store.put_file(output)
        return _judged(verdicts, outputs)

    def _compare(self, recipe: str, got: Array, operation: Operation, data: Data) -> Verdict:
        from dispatchflow import verdict

        def wanted(name: str, dtype: Any) -> Array:
            return _array(self.store.path(data[f"expected_{name}"][0]), dtype, operation)

        if recipe == "exact" or not operation.signature.result.is_float:
            return verdict.compare_bits(got, wanted(recipe, got.dtype))
        return verdict.compare_bounded(got, wanted("reference", "float64"), wanted("tolerance", "float64"))

    def _make(self, action: Action, make: Callable[[Path], _Result]) -> Record:
        """The record of this action: found, or made now. A recorded failure is tried again as `Resolver` says."""
        if (known := self._standing(action)) is not None:
            return known
        with self.store.lock(action.key):
            if (known := self._standing(action)) is not None:
                return known
            begin = time.monotonic()
            with self.machine.busy(), self.store.scratch() as scratch:
                try:
                    ok, reason, outputs, facts = make(scratch)
                except OSError as error:
                    ok, reason, outputs, facts = False, str(error), {}, {"repeatable": False}
                if not ok:
                    room.check(self.store.root, reason or "")
            record = Record(
                action.key, action.stage, ok, reason, outputs, facts,
                ingredients=action.ingredients, cost_s=time.monotonic() - begin, run=self.run, at=time.time(),
            )  # fmt: skip
            self.store.records.add(record)
            return record

    def _standing(self, action: Action) -> Record | None:
        record = self.store.records.get(action.key)
        return None if record is None or self.resolver.again(record) else record

    def _failed(self, what: str, outcome: processes.Outcome, scratch: Path, facts: dict[str, Any]) -> _Result:
        """`what`: `compile` or `run`. With the limit that it ran into, whose raising tries it again."""
        stderr = processes.shortened(scratch / "stderr", _SEARCHED)
        room.check(self.store.root, stderr)
        hit = self.resolver.settings.limits.hit(f"{what}_limit", outcome.timed_out, stderr)
        reason = hit.reason if hit else _first_error(stderr) or outcome.failure
        found = {"limit": (hit.name, hit.value)} if hit else {"repeatable": outcome.repeatable}
        return False, f"{what} failed: {reason}", self._log(scratch), facts | found

    def _put(self, array: Array) -> Digest:
        return self.store.put_bytes(array.tobytes())

    def _log(self, scratch: Path) -> dict[str, Digest]:
        log = scratch / "stderr"
        return {"log": self.store.put_bytes(log.read_bytes())} if log.exists() and log.stat().st_size else {}


def _ignored(tuning: Tuning, operation: Operation, dump: str) -> str | None:
    reason = tuning.ignored(operation, applied.parse(dump))
    return f"configuration ignored: {reason}" if reason else None


def _first_error(stderr: str) -> str | None:
    """The first line that says `error`, without the place; else the last line."""
    lines = stderr.splitlines()
    for line in lines:
        if match := re.search(r"error: (.+)", line, re.IGNORECASE):
            return match[1].rstrip(": ")[:300]
    return lines[-1][:300] if lines else None


def _array(path: Path, dtype: Any, operation: Operation) -> Array:
    import numpy as np

    array: Array = np.fromfile(path, dtype).reshape(operation.result().shape)
    return array


def _judged(verdicts: dict[str, Verdict], outputs: dict[str, Digest]) -> _Result:
    wrong = {recipe: v for recipe, v in verdicts.items() if v.word == "different"}
    worst = next(iter(wrong.values()), verdicts["random"])
    words = {v.word for v in verdicts.values()}
    word = next(w for w in ("different", "mistrusted", "within bound", "equal") if w in words)
    facts: dict[str, Any] = {
        "verification": word,
        "score": verdicts["random"].score,
        "rungs": {r: v.word for r, v in verdicts.items()},
    }
    if worst.worst is not None:
        facts |= {
            "worst_index": worst.worst.index,
            "worst_got": worst.worst.got,
            "worst_expected": worst.worst.expected,
        }
    if not wrong:
        return True, None, outputs, facts
    recipe = next(iter(wrong))
    assert worst.worst is not None
    place = ", ".join(map(str, worst.worst.index))
    elements = f"{worst.wrong} elements of the {recipe} inputs are wrong"
    return (
        False,
        f"{elements}; worst at [{place}]: got {worst.worst.got}, expected {worst.worst.expected}",
        outputs,
        facts,
    )
