"""`doit trace` shows a trace of IREE's instrumented runtime, or writes a timeline of one call."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from dispatchflow import units
from dispatchflow.cases.case import Case
from dispatchflow.cli import output
from dispatchflow.cli.commands._base import QueryCommand, join_users, one_case
from dispatchflow.engine import trace
from dispatchflow.errors import SpecError, ToolError, escaped
from dispatchflow.iree import phases, tracy_file
from dispatchflow.measurement.site_trials import SiteTrials
from dispatchflow.models.site import Program
from dispatchflow.project.case_phases import CasePhases
from dispatchflow.project.workspace import Workspace
from dispatchflow.reports import timeline, traces
from dispatchflow.reports.table import FORMATS
from dispatchflow.tools import toolchain, tracing

_SHOWN = 30
_ENDING = ".tracy"
_PERFETTO = ".json"


class TraceCommand(QueryCommand):
    name = "trace"
    page = "docs/sites-alone.md"
    doc_purpose = (
        "measure the zones (named parts) of a program with Tracy; usage: doit trace CASE, doit trace -- COMMAND, "
        "or doit trace FILE.tracy (an earlier trace). out=FILE.tracy keeps the trace. out=FILE.json writes a "
        "timeline of one call for ui.perfetto.dev instead, for which Tracy is not needed"
    )
    groups = ("cases", "run", "top", "format", "out")

    def execute(self, params: Any, args: list[str]) -> int:
        workspace, program = self.app.workspace(self.groups), self.app.program
        if program and args:
            raise SpecError("trace takes a case or a program", {"given": f"{' '.join(args)} -- {' '.join(program)}"})
        out = workspace.values.get("out")
        if out is not None and out.endswith(_PERFETTO):
            _refuse_zones(workspace, bool(program) or any(word.endswith(_ENDING) for word in args), out)
            join_users(workspace)
            _write_call(workspace, one_case(self.app, workspace, args, self.name), out)
            return 0
        if out is not None and not out.endswith(_ENDING):
            raise SpecError(
                f"out={out} must end with {_ENDING}, or {_PERFETTO} for ui.perfetto.dev", {"form": "out=net.tracy"}
            )
        if len(args) == 1 and args[0].endswith(_ENDING):
            _show(workspace, args[0], _content(Path(args[0])), None)
            return 0
        join_users(workspace)
        if program:
            return _traced_program(workspace, program, out)
        case = one_case(self.app, workspace, args, self.name)
        device = workspace.device(case.target, case.threads)
        with trace.traced(workspace.executor, case, device) as made:
            content = _kept(made.file, out)
        sites = trace.program_of(workspace.executor, case)
        places = CasePhases(workspace, case, phases.SOURCES).dispatches()
        _show(workspace, f"{trace.CALLS} calls of {case.name}", content, sites, places)
        return 0


def _refuse_zones(workspace: Workspace, tracy: bool, out: str) -> None:
    """Raise SpecError if a request for a timeline also has arguments for Tracy.

    `tracy` is true if the user gave a program or a trace file. `out` is the file for the timeline."""
    zones = [f"{name}=" for name in ("top", "format") if name in workspace.values]
    if tracy or zones:
        facts = {"form": f"doit trace CASE out={out}", "given": zones[0] if zones else "a program, or a trace of Tracy"}
        raise SpecError(f"out={out} takes one call of a case, without zones", facts)


def _write_call(workspace: Workspace, case: Case, out: str) -> None:
    device = workspace.device(case.target, case.threads)
    program, calls = SiteTrials(workspace.executor, workspace.bench).one_call(case, device)
    if not calls.launches:
        raise ToolError(f"{case.name} cannot be traced", {"found": "it launches no dispatch"})
    output.to_file(timeline.trace(case.name, program, calls), out)
    launched = f"{units.count(len(calls.launches), 'execution')} of "
    launched += units.count(len({group for group, _ in calls.launches}), "site")
    lines = [f"one call of {case.name}: {launched} in {units.nanoseconds(calls.total_ns)}"]
    if not calls.steady:
        lines = [f"{calls.calls} calls of {case.name}, which is stateful, so that each call differs: {launched}"]
    output.say_last(escaped("\n".join([*lines, f"{out}  open it in https://ui.perfetto.dev"])))


def _traced_program(workspace: Workspace, argv: Sequence[str], out: str | None) -> int:
    """Trace a program of the user; return 1 if the program failed, else 0."""
    if (found := shutil.which(argv[0])) is None:
        hint = "The file exists, but is not executable or not in PATH." if Path(argv[0]).is_file() else ""
        facts = {"given": f"-- {' '.join(argv)}", "form": "doit trace -- python my_script.py"}
        raise SpecError(f"there is no program '{argv[0]}'", facts, hint)
    runtime = tracing.runtime_beside(toolchain.installed()[1])
    environment = {**os.environ, "IREE_PY_RUNTIME": "tracy"}
    limits = workspace.settings.limits
    sys.stdout.flush()
    with workspace.store.scratch() as scratch:
        with _passed_on(sys.stdout.buffer) as stdout, _passed_on(sys.stderr.buffer) as stderr:
            command = tracing.Program((found, *argv[1:]), Path.cwd(), environment, stdout, stderr)
            made = tracing.capture(runtime, command, scratch, limits.block_s, limits.memory_bytes)
        content = _kept(made.file, out)
    _show(workspace, f"{' '.join(argv)}", content, None)
    if made.failure:
        print(f"doit: the traced program failed: {made.failure}", file=sys.stderr)
    return int(made.failure is not None)


@contextmanager
def _passed_on(stream: BinaryIO) -> Iterator[str]:
    """Yield the path of a pipe. A thread copies the pipe's content to `stream` as soon as it arrives."""
    reading, writing = os.pipe()

    def copy() -> None:
        while piece := os.read(reading, 1 << 16):
            stream.write(piece)
            stream.flush()

    thread = threading.Thread(target=copy, daemon=True)
    thread.start()
    yield f"/proc/{os.getpid()}/fd/{writing}"
    os.close(writing)  # not after an error: the program may still write, and the pipe closes when this process ends
    thread.join()
    os.close(reading)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SpecError(f"{path} cannot be read", {"found": error.strerror}) from error


def _kept(made: Path, out: str | None) -> bytes:
    content = made.read_bytes()
    if out is not None:
        try:
            Path(out).write_bytes(content)
        except OSError as error:
            raise output.unwritable(Path(out), error) from error
    return content


def _show(
    workspace: Workspace,
    title: str,
    content: bytes,
    program: Program | None,
    places: Mapping[str, tuple[str, int]] = {},
) -> None:
    values, read = workspace.values, tracy_file.read(content)
    found = traces.rows(read, program, places)
    if "format" in values and values["format"] != "text":
        output.say_last(escaped(FORMATS[values["format"]](traces.COLUMNS, found[: values.get("top")])))
        return
    shown = found[: values.get("top", _SHOWN)]
    lines = [f"trace of {title}", traces.table(shown), _summary(read, len(shown))]
    if "out" in values:
        lines.append(f"{values['out']}  {units.size(len(content))}")
    output.say_last(escaped("\n".join(lines)))


def _summary(read: tracy_file.Trace, shown: int) -> str:
    rest = len(read.zones) - shown
    text = f"{units.count(read.recorded, 'execution')} of {units.count(len(read.zones), 'zone')}"
    text += f"; top={len(read.zones)} shows {rest} more" if rest else ""
    text += f"; {read.unfinished} had not ended" if read.unfinished else ""
    lost = read.recorded - read.unfinished - sum(zone.count for zone in read.zones)
    text += f"; {lost} are missing in the file" if lost else ""
    unnamed = sum(zone.count for zone in read.zones if zone.name == tracy_file.UNNAMED)
    text += (
        f"; {unnamed} have lost their names ({tracy_file.UNNAMED}), as when a program crashes at its end"
        if unnamed
        else ""
    )
    return f"{text}\nThe runtime is instrumented: these times are longer than those of doit profile."
