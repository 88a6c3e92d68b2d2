"""Write each different dispatch of a compiled case as a separate MLIR module."""

from __future__ import annotations

from pathlib import Path

import msgspec

from dispatchflow.engine import actions
from dispatchflow.engine.actions import Action
from dispatchflow.engine.call import Result, failed
from dispatchflow.engine.stages import StageExecutor
from dispatchflow.keys import Digest
from dispatchflow.models import extraction
from dispatchflow.models.extraction import Extracted
from dispatchflow.store.entries import Record
from dispatchflow.tools import bindings

FACTS = "extracted"
SOURCES = tuple(f"models/{name}.py" for name in ("_dispatches", "_extractor", "_reading", "_script"))
"""The source files that the extraction depends on. If their text changes, the extraction is repeated."""


def of_flow(executor: StageExecutor, flow: Digest) -> Record:
    """Write each different dispatch of a program as a module, and return the record of this step.

    `flow` is the digest of the program after the compiler's phase `flow`. The record that `provenance.of_case` returns
    has it among its outputs, under the same name. The record of the extraction has these outputs:

    - `0.mlir`, `1.mlir`, …: the modules.
    - `0.plain.mlir`, …: copies without lowering configurations (see `plain`).
    - `extracted`: a `models.extraction.Extracted` as JSON.

    Raises:
        DamagedObject: `flow` was damaged or missing.
    """
    content, toolchain = executor.store.checked(flow), executor.resolver.toolchain

    def make(scratch: Path) -> Result:
        found = bindings.bindings_of(toolchain)
        argv = extraction.extractor_argv(found.python, found.folder, str(content), "facts.json")
        outcome = executor.run_compiler(argv, scratch, None)
        if outcome.code == bindings.NO_BINDINGS:
            raise FileNotFoundError(f"{bindings.NONE}. {bindings.HINT}")
        if outcome.failure:
            return failed("extraction", outcome, scratch, {}, executor.store, executor.limits)
        facts = (scratch / "facts.json").read_bytes()
        modules = msgspec.json.decode(facts, type=Extracted).modules
        names = [name for i in range(len(modules)) for name in (f"{i}.mlir", plain(i)) if (scratch / name).exists()]
        outputs = {FACTS: executor.store.put_bytes(facts)}
        outputs |= {name: executor.store.put_file(scratch / name) for name in names}
        return True, None, outputs, {"modules": len(modules)}

    return executor.make(action(flow, toolchain.digest), make)


def plain(module: int) -> str:
    """Return the name of a module's copy without lowering configurations, such as `3.plain.mlir`.

    The copy can be compiled for any backend; a lowering configuration suits only one backend. The copy exists only if
    the module has lowering configurations."""
    return f"{module}.plain.mlir"


def action(flow: Digest, toolchain: Digest) -> Action:
    """Return the action that writes each dispatch of a program as a separate module.

    Args:
        flow: the digest of the program after the compiler's phase `flow`.
        toolchain: the digest of the toolchain, whose Python bindings print the modules.
    """
    return actions.single("extraction", flow=flow, toolchain=toolchain, source=actions.sources(*SOURCES))


def extracted_of(executor: StageExecutor, record: Record) -> Extracted:
    """Return a description of the extracted modules, such as the arguments of their functions.

    `record` is the record of a successful extraction, which `of_flow` returns.

    Raises:
        DamagedObject: the output was damaged or missing. The store has dropped it and the records that name it.
    """
    return msgspec.json.decode(executor.store.checked(record.outputs[FACTS]).read_bytes(), type=Extracted)
