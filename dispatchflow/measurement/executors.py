"""Run the invocations of a microbenchmark in separate processes, and measure their dispatches.

An invocation names a function of a compiled module, its operands and its expected results."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dispatchflow import units
from dispatchflow.cases import module
from dispatchflow.engine import judgement
from dispatchflow.engine.call import reason_of
from dispatchflow.engine.verify_module import compared, doubt, untyped
from dispatchflow.errors import SpecError, ToolError, in_one_line
from dispatchflow.iree import command_lines, module_metadata, profile_events, rotation, run_output
from dispatchflow.iree.profile_events import Launch
from dispatchflow.iree.rotation import Rotation
from dispatchflow.measurement.invocations import Call, Invocation, checked
from dispatchflow.models.site_times import IncompleteProfile, first_measured
from dispatchflow.store import scratch
from dispatchflow.store.facts import Facts
from dispatchflow.timing.protocols import Protocol
from dispatchflow.tools import machine, processes, toolchain

_EVENTS = 20_000
"""The measured calls of a block (one profiled process) launch at most about this number of dispatches."""
_ATTEMPTS = 5
"""The number of attempts to profile a block.

A block is profiled again only if the runtime loses events of the profile."""
_FLUSH_MS = 1

Row = dict[str, Any]


@dataclass(frozen=True)
class Executors:
    """Runs calls of compiled functions on one device, with IREE's tools in child processes.

    `device` is a URI, such as `local-task`. Each process may take `limit_s` seconds. The directory `trace` receives
    profiles."""

    device: str
    protocol: Protocol
    limit_s: float
    trace: Path | None = None

    def checked(self, given: Invocation) -> Call:
        """Check an invocation against its compiled module, and return the call to make.

        Raises:
            SpecError: the file is not a compiled module that IREE can read, the invocation does not fit the module, or
                reading the module took more than `limit_s` seconds."""
        vmfb = given.vmfb if isinstance(given.vmfb, bytes) else self._content(given)
        with self._directory({"module.vmfb": vmfb}) as place:
            dump = (self._runtime("iree-dump-module"), "--output=metadata", "module.vmfb")
            if (failure := self._run(dump, place)) is not None:
                facts = {"invocation": given.name, "found": failure}
                if failure == self._too_long:
                    raise SpecError("the module was not read in time", facts, "Raise limit_s.")
                raise SpecError("this is no compiled module that IREE can read", facts, "iree-compile makes one.")
            text = (place / "stdout").read_text(encoding="utf-8", errors="replace")
        return checked(given, vmfb, module_metadata.parse(text))

    def rows(self, call: Call, check_only: bool) -> list[Row]:
        """Verify and measure a call; return one row for each dispatch that the call launches.

        If `check_only` is true, the call is not measured. Returns one row without a dispatch if the call was not
        measured or launches no dispatch."""
        row: Row = {"invocation": call.name, "function": call.function, "device": self.device}
        with self._directory(dict(self._files(call))) as place:
            row |= self._verified(call, place)
            if check_only or row["status"] == "failed":
                return [row]
            try:
                return [row | cells | {"status": "measured"} for cells in self._measured(call, place)]
            except (ToolError, OSError) as error:
                return [row | {"status": "failed", "reason": f"measuring failed: {in_one_line(error)}"}]

    def _verified(self, call: Call, place: Path) -> Row:
        """Call the function and compare its results with the expected ones; return the outcome.

        The outcome has the columns `status` and `verdict` of a row of results, and `reason` if the call failed, or if
        its results are wrong or doubtful."""
        names = module.output_names(call.results)
        given = [_value(operand.shape, operand.element, i, call) for i, operand in enumerate(call.operands)]
        run = command_lines.run_argv(
            self._runtime("iree-run-module"), "module.vmfb", self._device_flags, given, names, call.function,
            call.parameters,
        )  # fmt: skip
        if (failure := self._run(run, place)) is not None:
            return {"status": "failed", "verdict": "not compared", "reason": f"run failed: {failure}"}
        if call.expected is None:
            return {"status": "checked", "verdict": "not compared"}
        types = list(call.results)
        if not all(map(module.is_sized, types)):
            sizes = command_lines.run_argv(
                run[0], "module.vmfb", self._device_flags, given, (), call.function, call.parameters
            )
            if (failure := self._run(sizes, place)) is not None:
                return {"status": "failed", "verdict": "not compared", "reason": f"run failed: {failure}"}
            said = run_output.result_types((place / "stdout").read_text(encoding="utf-8", errors="replace"))
            types = [module.with_sizes_of(said[i], type) if i in said else type for i, type in enumerate(types)]
        ok, reason, facts = _judged(call, types, [(place / name).read_bytes() for name in names])
        why = {"reason": reason or facts["why"]} if reason or "why" in facts else {}
        return {"status": "checked" if ok else "failed", "verdict": facts["verification"], **why}

    def _measured(self, call: Call, place: Path) -> Iterator[Row]:
        """Measure a call; yield one row for each dispatch that the call launches.

        A row has only the measured columns. If the call launches no dispatch, the only row has the time of the call."""
        inputs = [
            f"{rotated}xi8=@cold_{i}.bin" if rotated else _value(operand.shape, operand.element, i, call)
            for i, (operand, rotated) in enumerate(zip(call.operands, self._rotate(call, place), strict=True))
        ]
        launches: dict[str, list[Launch]] = defaultdict(list)
        means: dict[str, list[float]] = defaultdict(list)  # dispatch → its time in a call, for each block
        ns, calls, begin = list[float](), 0, time.monotonic()
        each, found = self._block(call, place, inputs, 1)  # the time of one call shows how many fit into a block
        while len(ns) < self.protocol.blocks and (not ns or time.monotonic() - begin < self.protocol.budget_s):
            enough, most = self.protocol.block_s * 1e9 / each.total_ns, _EVENTS / max(1, len(found))
            number = each.calls * min(enough, most)
            each, found = self._block(call, place, inputs, max(1, round(number)))
            ns.append(each.total_ns / each.calls)
            calls += each.calls
            spent: dict[str, int] = defaultdict(int)
            for launch in found:
                launches[launch.export].append(launch)
                spent[launch.export] += launch.duration_ns
            for export, total in spent.items():
                means[export].append(total / each.calls)
        shared = {"calls": calls, "call_ns": statistics.median(ns)}
        for export, found in launches.items():
            times, workgroups = sorted(launch.duration_ns for launch in found), {each.workgroups for each in found}
            yield {
                **shared,
                "dispatch": export,
                "executions": len(times),
                "total_ns": sum(times),
                "median_ns": float(statistics.median(times)),
                "p5_ns": float(times[len(times) // 20]),
                "dispatch_ns": statistics.median(means[export]),
                "workgroups": workgroups.pop() if len(workgroups) == 1 else None,
            }
        if not launches:
            yield {**shared, "executions": 0, "total_ns": 0}

    def _block(
        self, call: Call, place: Path, inputs: Sequence[str], calls: int
    ) -> tuple[profile_events.Repetition, Sequence[Launch]]:
        """Run and profile calls; return the measured calls, and their launches of dispatches."""
        # The process has two repetitions of `calls` calls: a warm-up, and the one that counts. If the dispatches differ
        # from call to call, the two count as one repetition.
        for attempt in range(_ATTEMPTS):
            argv = command_lines.profiled_benchmark_argv(
                self._runtime("iree-benchmark-module"), "module.vmfb", self._rotated_flags(call), inputs, calls,
                function=call.function, flush_ms=_FLUSH_MS if attempt else None, parameters=call.parameters,
            )  # fmt: skip
            if (failure := self._run(argv, place, self._cpus)) is not None:
                raise ToolError(failure)
            repetitions = profile_events.repetitions((place / "stdout").read_text(errors="replace"))
            export = command_lines.profile_export_argv(self._runtime("iree-profile"))
            if (failure := self._run(export, place)) is not None:
                raise ToolError(failure)
            profile = profile_events.parse((place / "calls.jsonl").read_bytes())
            if not profile.dropped:
                break
        else:
            raise IncompleteProfile(f"the profile is incomplete: {profile.dropped} records were dropped")
        if self.trace is not None:
            self.trace.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(place / "calls.ireeprof", self.trace / f"{call.name}.ireeprof")
        if (first := first_measured(profile, repetitions)) is None:
            total = sum(each.total_ns for each in repetitions)
            return profile_events.Repetition(sum(each.calls for each in repetitions), total), profile.launches
        return repetitions[-1], [each for each in profile.launches if each.submission >= first]

    def _rotate(self, call: Call, place: Path) -> list[int]:
        """Write many copies of each cold operand, so that each call can read a different copy.

        Returns the number of bytes written for each operand.

        Raises:
            ToolError: copies are impossible, for example because they need too much memory."""
        if not call.cold:
            return [0] * len(call.operands)
        cache = machine.last_level_cache_bytes() if self.device.startswith("local") else None
        if cache is None:
            raise ToolError(f"the size of the last-level cache is not known on {self.device}: cold inputs need it")
        count = rotation.copies(call.operands, cache)
        found = Rotation(call.module, call.function, call.operands, call.results, count)
        if found.is_too_large(machine.memory_bytes()):
            raise ToolError(f"{units.size(found.nbytes)} of copies of cold inputs are over a quarter of the memory")
        for index, (operand, value) in enumerate(zip(call.operands, call.values, strict=True)):
            if operand.cold:
                with (place / f"cold_{index}.bin").open("wb") as stream:
                    for _ in range(count):
                        stream.write(value.ljust(operand.stride, b"\0"))
        (place / "rotation.mlir").write_text(rotation.module(found), encoding="utf-8")
        compiler = os.fspath(toolchain.installed()[0])
        if (failure := self._run((compiler, "rotation.mlir", "-o", rotation.FILE), place)) is not None:
            raise ToolError(f"the rotation of the inputs: {failure}")
        return [count * operand.stride if operand.cold else 0 for operand in call.operands]

    def _rotated_flags(self, call: Call) -> tuple[str, ...]:
        return (*self._device_flags, *((f"--module={rotation.FILE}",) if call.cold else ()))

    def _files(self, call: Call) -> Iterator[tuple[str, bytes]]:
        yield "module.vmfb", call.vmfb
        for index, (operand, value) in enumerate(zip(call.operands, call.values, strict=True)):
            if operand.shape is not None:
                yield f"input_{index}.bin", value

    def _run(self, argv: tuple[str, ...], place: Path, cpus: tuple[int, ...] = ()) -> str | None:
        """Run a tool in a new process; return why the tool failed, or None if it succeeded."""
        command = processes.Command(
            argv, place, command_lines.device_environment(os.environ),
            time_limit_s=self.limit_s, memory_limit_bytes=machine.memory_bytes(), cpus=cpus,
        )  # fmt: skip
        outcome = processes.run(command)
        if outcome.timed_out:
            return self._too_long
        return reason_of(outcome, processes.shortened(place / "stderr")) if outcome.failure else None

    @property
    def _too_long(self) -> str:
        return f"took longer than limit_s={self.limit_s:g}"

    @property
    def _cpus(self) -> tuple[int, ...]:
        """The CPU cores for the device's threads: one core for `local-sync`, no cores for a GPU."""
        if not self.device.startswith("local"):
            return ()
        return machine.cores()[-machine.workers() :] if self.device == "local-task" else machine.cores()[-1:]

    @property
    def _device_flags(self) -> tuple[str, ...]:
        return command_lines.device_flags(self.device, self._cpus)

    def _runtime(self, tool: str) -> str:
        return os.fspath(toolchain.installed()[1] / tool)

    @contextmanager
    def _directory(self, files: Mapping[str, bytes]) -> Iterator[Path]:
        with scratch.directory(Path(tempfile.gettempdir())) as place:
            for name, content in files.items():
                (place / name).write_bytes(content)
            yield place

    def _content(self, given: Invocation) -> bytes:
        try:
            return Path(os.fspath(given.vmfb)).read_bytes()  # type: ignore[arg-type]
        except OSError as error:
            facts = {"invocation": given.name, "module": given.vmfb, "found": error.strerror}
            raise SpecError(
                "the module cannot be read", facts, "iree-compile NAME.mlir -o NAME.vmfb makes one."
            ) from error


def _value(shape: tuple[int, ...] | None, element: str, index: int, call: Call) -> str:
    """Return an operand as the tools' option `--input=` takes it: `4x8xf32=@input_0.bin`, or a number."""
    if shape is None:
        return call.values[index].decode()
    return f"{'x'.join([*map(str, shape), element])}=@input_{index}.bin"


def _judged(call: Call, types: Sequence[str], got: Sequence[bytes]) -> tuple[bool, str | None, Facts]:
    """Compare a call's results with the expected ones; return (ok, reason, facts).

    `got` has the bytes of the results. If `ok` is False, `reason` says what is wrong. `facts["verification"]` is the
    verdict, such as `equal`."""
    assert call.expected is not None
    verdicts = {}
    for index, ((wanted_type, wanted), type, held) in enumerate(zip(call.expected, types, got, strict=True)):
        if (unlike := module.unlike(type, wanted_type)) is not None or len(held) != len(wanted):
            problem = f"result {index} is {unlike or f'{len(held)} B; {len(wanted)} B are expected'}"
            return False, problem, {"verification": "different"}
        if (found := compared(held, wanted, wanted_type, call.rtol)) is not None:
            verdicts[str(index)] = found
    if not verdicts:
        return True, None, {"verification": "not compared"}
    doubts = [doubt(int(index), found) for index, found in verdicts.items() if found.word == "mistrusted"]
    ok, reason, _, facts = judgement.judged(verdicts, {}, untyped(list(types)), next(iter(doubts), None))
    return ok, reason, facts
