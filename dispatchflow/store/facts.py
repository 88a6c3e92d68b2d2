"""Facts are the values that an action gives besides its output files, such as the time of a compile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from dispatchflow.keys import Digest


class Facts(TypedDict, total=False):
    """The facts of a record. A comment above each group of facts names the stage that sets the group.

    A failed action has only the facts that were found before the failure."""

    # --- of any failed action
    limit: tuple[str, float]
    """The name and value of the limit that a tool hit. The action is tried again under a higher limit."""
    repeatable: bool
    """Whether the action would fail again in the same way. If False, the next run repeats the action."""

    # --- emit, of a user's module
    name: str
    """The module's name."""
    functions: Mapping[str, Sequence[Sequence[str]]]
    """Public function → [types of operands, types of results]; see `mlir.functions.to_facts`."""
    asks: Sequence[str]
    """The configurations that operations of the module request (`iree.configurations.requested_by`)."""
    stored: Sequence[str]
    """The globals that the module's functions write. Writes by initializers do not count."""
    imported: Mapping[str, Any]
    """The opsets, importer and conversions of an imported model."""

    # --- inputs, of a user's module
    arguments: Sequence[str]
    """Each operand as IREE's tools spell it: the type, such as `4x8xf32`.

    A scalar also has `=` and its value."""

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
    """A warning that a second compile, with more flags, gave other code than the first."""

    # --- verify
    verification: str
    """The verdict, a word of `verification.verdict_words`."""
    score: float | None
    """The largest ratio of an error to its tolerance."""
    rungs: Mapping[str, str]
    """Recipe of inputs → verdict. For a user's module: index of a result → verdict."""
    why: str
    """The reason for the verdict `mistrusted` or `not compared`."""
    worst_index: Sequence[int]
    worst_got: Any
    worst_expected: Any
    runtime: str
    """The version of the runtime that ran the call."""
    runtime_digest: Digest

    # --- provenance
    sites: int
    operations: int
    """The number of source operations."""
    unplaced: int
    """The number of operations that compute something but belong to no site."""
    untagged: int
    """The number of launches without a tag `df.site.N`. Their dispatches are unknown."""
    unlaunched: int
    """The number of dispatches that are never launched."""
    unlabelled: str | None
    """The reason why the names of source operations are unknown. None if the names are known."""

    # --- capture: also the fields of `models.captured.Capture`
    tensors: Sequence[Any]
    missing: Sequence[Any]
    executions: Mapping[str, int]
    bytes: int
    execution: int | None
    """The number of the execution of each site that was captured. None for the last execution."""

    # --- extract and locate
    modules: int
    results: Sequence[Any]
    """The comparison of each result, as `models.located.ResultCheck`."""
