"""Find the records of steps that are not stages, such as the capture of a case's operands.

Commands execute these steps on the outputs of stages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from dispatchflow.engine import actions, annotate, extraction, recompile
from dispatchflow.iree import phases
from dispatchflow.keys import Digest, Key
from dispatchflow.store.retention import StoredRecord

_RECOMPILES = ("phases", "passes", phases.SOURCES, *phases.OUTPUTS, annotate.LINKED)


def keys(held: Sequence[StoredRecord], stages: Set[Key]) -> set[Key]:
    """Return the key of each record in `held` that was written by a step other than a stage.

    These steps are captures, extractions, compiles of extracted modules, and compiles with additional flags
    (`recompile`). A capture, extraction or recompile is left out if its version is outdated. `stages` has
    the keys of stages. A step counts only if its input comes directly or indirectly from one of these stages."""
    versions: dict[str, str | int] = {
        "capture": actions.sources(*actions.CAPTURE),
        "extraction": actions.sources(*extraction.SOURCES),
        **dict.fromkeys(_RECOMPILES, recompile.VERSION),
    }
    known = stages | _outputs(record for record in held if record.key in stages)
    current = [
        record
        for record in held
        if record.stage in versions and record.version == versions[record.stage] and record.made_from in known
    ]
    modules = _outputs(record for record in current if record.stage == "extraction")
    compiles = {record.key for record in held if record.stage == "compile" and record.made_from in modules}
    return {record.key for record in current} | compiles


def _outputs(records: Iterable[StoredRecord]) -> set[Digest]:
    return {digest for record in records for digest in record.outputs.values()}
