"""Facts are values that an action, such as a compile, records besides its output files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from dispatchflow.keys import Digest


class Facts(TypedDict, total=False):
    """The facts of a record, which is the stored outcome of one action, such as a compile.

    A comment above each group of fields names the kind of action that sets these fields. If the action failed, its
    record has only the facts that were found before the failure."""

    # --- of any failed action
    limit: tuple[str, float]
    """The limit that may have caused the failure: its name (such as `run_limit`) and its value.

    The value is in s or bytes. A later run with a higher limit tries the action again."""
    repeatable: bool
    """Whether the action would fail again in the same way. If False, the next run repeats the action."""

    # --- emit, of a user's module
    name: str
    """The module's name."""
    functions: Mapping[str, Sequence[Sequence[str]]]
    """Name of a public function → [types of its operands, types of its results]."""
    asks: Sequence[str]
    """The lowering configurations (such as tile sizes) that the operations of the module request.

    `iree.configurations.requested_by` finds these."""
    stored: Sequence[str]
    """The globals to which the module's functions write. Writes by initializers do not count."""
    imported: Mapping[str, Any]
    """If the module was imported from a model: the model's opsets, the importer, and the conversions."""

    # --- inputs, of a user's module
    arguments: Sequence[str]
    """Each operand as IREE's tools spell it: its type, such as `4x8xf32`.

    If the operand is a scalar, `=` and the scalar's value follow the type."""

    # --- compile
    compile_s: float
    compiler_peak_bytes: int | None
    code_digest: Digest
    code_bytes: int
    applied: str | None
    """The lowering configurations that the compiler applied to the dispatches, as one text."""
    dispatches: Sequence[tuple[str, str]]
    """The name of each dispatch, with the lowering configuration that the compiler applied to it."""
    doubt: str
    """A warning: the case was compiled again with additional flags, and its code was then different."""

    # --- verify
    verification: str
    """The verdict, such as `within bound`. All verdicts are in `verification.verdict_words`."""
    score: float | None
    """The largest error of an element, divided by the error that is allowed for this element."""
    rungs: Mapping[str, str]
    """The verdict for each recipe (a way to make inputs, such as `exact`), as recipe → verdict.

    For a user's module, which has no recipes: index of a result → verdict."""
    why: str
    """The reason for the verdict `mistrusted` or `not compared`."""
    worst_index: Sequence[int]
    worst_got: Any
    worst_expected: Any
    runtime: str
    """The version of the runtime, or of the library such as numpy, that computed the results."""
    runtime_digest: Digest

    # --- provenance
    sites: int
    operations: int
    """The number of source operations, which are the operations of the program as the user wrote it."""
    unplaced: int
    """The number of source operations that compute something but belong to no site."""
    untagged: int
    """The number of launches that have no tag `df.site.N`, which would name the launched dispatch."""
    unlaunched: int
    """The number of dispatches that are never launched."""
    unlabelled: str | None
    """The reason why the names of the source operations are unknown. None if the names are known."""

    # --- capture: also the fields of `models.captured.Capture`
    tensors: Sequence[Any]
    missing: Sequence[Any]
    executions: Mapping[str, int]
    bytes: int
    execution: int | None
    """The number of the execution that was captured for each site. The first execution has the number 1.

    None stands for the last execution."""

    # --- extract and locate
    modules: int
    results: Sequence[Any]
    """The comparison of each result with the expected result; see `models.located.ResultCheck`."""
