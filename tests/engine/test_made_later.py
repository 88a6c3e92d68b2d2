"""If `doit store clean` keeps a stage's output, it also keeps what commands made from this output.

An example is a capture: the operands and results of a program's sites. A capture that another version of dispatchflow
made is not kept."""

from __future__ import annotations

from dispatchflow.engine import actions, extraction, made_later, recompile
from dispatchflow.store.retention import StoredRecord

CAPTURE, EXTRACTION = actions.sources(*actions.CAPTURE), actions.sources(*extraction.SOURCES)


def record(stage: str, made_from: str | None, version: str | int | None = None, **outputs: str) -> StoredRecord:
    return StoredRecord(f"{stage} of {made_from} {version}", stage, 0.0, outputs, made_from, version)


COMPILE, PROVENANCE = record("compile", "text"), record("provenance", "compile of text None", "x", flow="flow")
LATER = (
    record("capture", "flow", CAPTURE),
    record("extraction", "flow", EXTRACTION, **{"0.mlir": "module"}),
    record("compile", "module"),
    *(record(kind, COMPILE.key, recompile.VERSION) for kind in ("phases", "passes", "vm-asm", "vm-c", "linked")),
)
OTHERS = (
    record("capture", "flow", "an older text"),
    record("capture", "other flow", CAPTURE),
    record("phases", COMPILE.key, 0),
    record("phases", "other compile", recompile.VERSION),
    record("provenance", COMPILE.key, "an older text"),
    record("compile", "flow"),
    record("inputs", None),
)


def test_only_records_that_this_version_made_from_stages_are_kept() -> None:
    held = [COMPILE, PROVENANCE, *LATER, *OTHERS]
    assert made_later.keys(held, {COMPILE.key, PROVENANCE.key}) == {each.key for each in LATER}
    assert made_later.keys(held, set()) == set()
