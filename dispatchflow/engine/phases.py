"""Compile a case again to get its module after each phase or pass, or the time of each pass."""

from __future__ import annotations

import os
from pathlib import Path

from dispatchflow.cases.case import Case
from dispatchflow.engine.call import failed
from dispatchflow.engine.recompile import Recompile, Source
from dispatchflow.engine.stages import StageExecutor
from dispatchflow.errors import ToolError
from dispatchflow.iree import pass_times, phases
from dispatchflow.keys import Digest
from dispatchflow.store.entries import Record

_TEXT = "module.txt"


def dump(executor: StageExecutor, case: Case, source: Source) -> Record:
    """Compile a case again and write its module after each phase. Return the record of this compile.

    Each output is a module, such as `6.flow.mlir`. If the compile fails, the record has the modules before the
    failure. If its code differs from that of the case's usual compile, `doubt` in the record's facts says so."""

    def take(scratch: Path) -> dict[str, Digest]:
        folder = scratch / phases.FOLDER
        names = phases.found(path.name for path in folder.iterdir()) if folder.is_dir() else {}
        return {phase.file: executor.store.put_file(folder / name) for phase, name in names.items()}

    return Recompile(executor, case, source).record("phases", phases.dump_flags(), take)


def passes(executor: StageExecutor, case: Case, source: Source) -> Record:
    """Return the record of a compile whose output `passes.txt` has the module after each pass."""

    def take(scratch: Path) -> dict[str, Digest]:
        return {"passes.txt": executor.store.put_file(scratch / "stderr")}

    return Recompile(executor, case, source).record("passes", (*phases.PASSES, *phases.SHORT), take)


def program_text(executor: StageExecutor, case: Case, source: Source, kind: str) -> Record:
    """Return the record of a compile whose output `module.KIND` is the host program as text.

    `kind` is `vm-asm` or `vm-c`."""

    def take(scratch: Path) -> dict[str, Digest]:
        made = scratch / _TEXT
        return {f"module.{kind}": executor.store.put_file(made)} if made.is_file() else {}

    return Recompile(executor, case, source, _TEXT).record(kind, phases.output_flags(kind), take)


def dispatches(executor: StageExecutor, case: Case, source: Source) -> Record:
    """Compile a case until code generation would begin, and return the record of this compile.

    The record has one output for each dispatch: the dispatch's module."""

    def take(scratch: Path) -> dict[str, Digest]:
        folder = scratch / phases.SOURCES
        return {path.name: executor.store.put_file(path) for path in sorted(folder.glob("*.mlir"))}

    return Recompile(executor, case, source, os.devnull).record(phases.SOURCES, phases.sources_flags(), take)


def times(executor: StageExecutor, case: Case, source: Source) -> list[pass_times.PassTime]:
    """Compile a case and return the time of each pass; the times are not recorded.

    Raises:
        ToolError: the compile failed, or printed no times.
    """
    with executor.store.busy(), executor.store.scratch() as scratch:
        outcome = Recompile(executor, case, source).run(scratch, phases.TIMING)
        if outcome.failure:
            reason = failed("compile", outcome, scratch, {}, executor.store, executor.limits)[1]
            raise ToolError(reason or "the compile failed", {"case": case.name})
        try:
            return pass_times.parse((scratch / "stderr").read_text(errors="replace"))
        except ValueError as error:
            raise ToolError(str(error), {"case": case.name}) from error
