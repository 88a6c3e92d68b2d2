"""The facts of records: values that an action gives besides its outputs, such as a compile's time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from dispatchflow.keys import Digest


class Facts(TypedDict, total=False):
    """The facts of a record, which depend on the stage; comments below name the stages.

    A failed action has only the facts that were found before the failure."""

    # --- of any failed action
    limit: tuple[str, float]
    """The name and value of the limit that a tool hit. The action is tried again under a higher limit."""
    repeatable: bool
    """Whether the action would fail again in the same way; if False, the next run tries it again."""

    # --- emit, of a user's module
    name: str
    """The module's name."""
    functions: Mapping[str, Sequence[Sequence[str]]]
    """Public function → the types of its operands and results (`mlir.functions.to_facts`)."""
    asks: Sequence[str]
    """The configurations that the module itself requests (`iree.configurations.requested_by`)."""
    stored: Sequence[str]
    """The globals to which the module's functions store; stores by initializers do not count."""
    imported: Mapping[str, Any]
    """The opsets, importer and conversions of an imported model."""

    # --- inputs, of a user's module
    arguments: Sequence[str]
    """Each operand's type as IREE's tools spell it, `4x8xf32`; for a scalar, `=` and its value."""

    # --- compile
    compile_s: float
    compiler_peak_bytes: int | None
    code_digest: Digest
    code_bytes: int
    applied: str | None
    """The configurations that the compiler applied to the dispatches, as one text."""
    dispatches: Sequence[tuple[str, str]]
    """The name and the applied configuration of each dispatch."""
    doubt: str
    """The warning that a second compile, with more flags (`recompile`), gave other code than the first."""

    # --- verify
    verification: str
    """The verdict (`verification.verdict_words`)."""
    score: float | None
    """The largest error, in units of its tolerance."""
    rungs: Mapping[str, str]
    """Recipe of inputs, or index of a module's result → the verdict on it."""
    why: str
    """The reason for the verdict `mistrusted` or `not compared`."""
    worst_index: Sequence[int]
    worst_got: Any
    worst_expected: Any
    runtime: str
    """The release of the runtime that ran the call."""
    runtime_digest: Digest

    # --- provenance
    sites: int
    operations: int
    """The number of source operations."""
    unplaced: int
    """The number of operations that compute something but belong to no site."""
    untagged: int
    """The number of launches whose dispatches are unknown, because they have no tag `df.site.N`."""
    unlaunched: int
    """The number of dispatches that are never launched."""
    unlabelled: str | None
    """The reason why no names of source operations are known; None if they are."""

    # --- capture: also the fields of `models.captured.Capture`
    tensors: Sequence[Any]
    missing: Sequence[Any]
    executions: Mapping[str, int]
    bytes: int
    execution: int | None
    """The number of the execution that was captured of each site; None for the last execution."""

    # --- extract and locate
    modules: int
    results: Sequence[Any]
    """The comparison of each result (`models.located.ResultCheck`)."""
