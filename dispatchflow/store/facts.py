"""Facts are values that an action, such as a compile, records besides its output files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from dispatchflow.keys import Digest


class Facts(TypedDict, total=False):
    """The facts of a record, which is the stored outcome of one action, such as a compile.

    A comment above each group of fields names the action that sets them. The first group is for failed actions. A
    failed action has facts of the other groups only if they were found before the failure."""

    # --- of any failed action
    limit: tuple[str, float]
    """The name (such as `run_limit`) and the value of the limit that may have made the action fail.

    The value is in s or bytes. A later run with a higher limit tries the action again."""
    repeatable: bool
    """True if the failed action would fail in the same way again. If False, the next run tries it again."""

    # --- emit, of a user's module
    name: str
    """The module's name."""
    functions: Mapping[str, Sequence[Sequence[str]]]
    """A dict from the name of each public function to [types of its operands, types of its results]."""
    asks: Sequence[str]
    """The lowering configurations (such as tile sizes) that the operations of the module request.

    `iree.configurations.requested_by` finds these."""
    stored: Sequence[str]
    """The globals to which the module's functions write. Writes by initializers do not count."""
    imported: Mapping[str, Any]
    """A dict with the keys `onnx`, `opset` and `converted_from`, for a module from an ONNX model.

    `onnx` is the version of the package onnx that imported the model. `opset` is the model's opset when it was
    imported. If the model was converted to this opset before the import, `converted_from` is its original opset;
    otherwise it is None."""

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
    """A warning that a second compile of the case, with additional flags, gave different code."""

    # --- verify
    verification: str
    """The verdict, such as `within bound`. All verdicts are in `verification.verdict_words`."""
    score: float | None
    """The largest error of an element, divided by the error that is allowed for this element."""
    rungs: Mapping[str, str]
    """A dict from each recipe (a way to make inputs, such as `exact`) to the verdict for these inputs.

    For a user's module, which has no recipes, the keys are the indices of the results instead."""
    why: str
    """The reason for the verdict `mistrusted` or `not compared`."""
    worst_index: Sequence[int]
    worst_got: Any
    worst_expected: Any
    runtime: str
    """The version of the program that computed the results: IREE's runtime, or a library such as numpy."""
    runtime_digest: Digest

    # --- provenance
    sites: int
    operations: int
    """The number of source operations, which are the operations of the program as the user wrote it."""
    unplaced: int
    """The number of source operations that compute something but belong to no site."""
    untagged: int
    """The number of launches without a tag `df.site.N`. The site of such a launch is unknown."""
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
    """Which execution of each site was captured, counted from 1. None stands for the last execution."""

    # --- extract and locate
    modules: int
    results: Sequence[Any]
    """The comparison of each result with the expected result; see `models.located.ResultCheck`."""
