"""Verification detects wrong sums of up to 65,536 terms, and wrong maxima.

Verification also detects errors in compiled modules: in a norm of rows with up to 16,384 elements, and in an
attention with 4,096 keys."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract.test_plants import called, different, module, workspace  # noqa: F401 (a fixture)
from support.lines import unscaled
from support.weighted_sums import ATTENTION, NORM, POOLING, REDUCTION, positions

from dispatchflow.iree.targets import TARGETS
from dispatchflow.operations import Operation
from dispatchflow.operations.norm import EPSILON
from dispatchflow.project.workspace import Workspace
from dispatchflow.verification.inputs import made
from dispatchflow.verification.reference import expected, widened
from dispatchflow.verification.verdict import compare_bits

# --- sums and maxima that are an operation's whole result


@lru_cache(1)
def right_of(operation: Operation) -> Any:
    return expected(operation, made(operation, "exact"))


def differs(operation: Operation, x: Any) -> bool:
    right = right_of(operation)
    return compare_bits(operation.reference([x]).astype(right.dtype), right).word == "different"


@pytest.mark.parametrize(
    ("types", "k"),
    [*((types, 65536) for types in ("f32", "bf16", "f16_f32", "f64", "i8", "i32")), ("f16", 8), ("f16", 2048)],
)
@pytest.mark.parametrize("axis", ["inner", "outer", "all"])
def test_every_term_of_a_sum_counts(types: str, k: int, axis: str) -> None:
    sizes = {"inner": (1, k), "outer": (k, 1), "all": (8, k // 8)}[axis]
    operation = REDUCTION.make(sizes, types, axis=axis)
    (x,) = widened(made(operation, "exact"))
    for position in positions(k):
        for factor in (0, 2):
            wrong = x.copy()
            wrong.flat[position] *= factor
            assert differs(operation, wrong), position


def test_a_sum_in_f16_counts_2048_terms_of_a_line() -> None:
    # Longer lines have 2,048 elements that are not 0 (docs/verification.md).
    for k in (4096, 65536):
        operation = REDUCTION.make((4, k), "f16")
        (x,) = unscaled(operation, made(operation, "exact"))
        assert [int((line != 0).sum()) for line in x] == [2048] * 4
        assert set(abs(x).ravel().tolist()) == {0.0, 1.0}


@pytest.mark.parametrize("axis", ["inner", "outer", "all"])
@pytest.mark.parametrize("types", REDUCTION.signatures)
def test_each_line_has_its_largest_element_at_another_place(types: str, axis: str) -> None:
    operation = REDUCTION.make((16, 64), types, kind="max", axis=axis)
    (x,) = widened(made(operation, "exact"))
    lines = {"inner": x, "outer": x.T, "all": x.reshape(1, -1)}[axis]
    largest = lines.argmax(axis=1)
    assert len({*largest.tolist()}) == min(lines.shape)
    for line, place in enumerate(largest):
        wrong = x.copy()
        {"inner": wrong, "outer": wrong.T, "all": wrong.reshape(1, -1)}[axis][line, place] = lines[line].min()
        assert differs(operation, wrong)
    assert largest[0] == lines.shape[1] - 1
    begun_with_0 = np.maximum(operation.reference([x]), 0)
    assert (begun_with_0 != operation.reference([x])).all()


@pytest.mark.parametrize(("types", "side"), [("f32", 256), ("i32", 64), ("f64", 64), ("f16", 32), ("f32", 3)])
def test_every_term_of_a_window_counts(types: str, side: int) -> None:
    operation = POOLING.make((1, side, side, 1, side, side), types, kind="sum")
    (x,) = widened(made(operation, "exact"))
    for position in positions(side * side):
        for factor in (0, 2):
            wrong = x.copy()
            wrong.flat[position] *= factor
            assert differs(operation, wrong), position


@pytest.mark.parametrize("types", POOLING.signatures)
def test_padding_that_is_0_is_the_largest_of_every_window_that_has_some(types: str) -> None:
    operation = POOLING.make((1, 9, 9, 2, 3, 3), types, kind="max", padding=1)
    right = operation.reference(widened(made(operation, "exact")))
    assert right.max() < 0


# --- compiled


def _without_last_key(operation: Operation) -> str:
    body, (b, _, n, k1, k2) = operation.body(""), operation.sizes
    for name, size in (("arg1", k1), ("arg2", n)):
        whole, part = f"tensor<{b}x{k2}x{size}xf16>", f"tensor<{b}x{k2 - 1}x{size}xf16>"
        body = body.replace(f"%{name}", f"%cut{name}").replace(whole, part)
        text = f"%cut{name} = tensor.extract_slice %{name}[0, 0, 0] [{b}, {k2 - 1}, {size}] [1, 1, 1]"
        body = f"    {text} : {whole} to {part} loc(unknown)\n" + body
    return body


def _wrong() -> Iterator[tuple[str, Operation, str]]:
    for types, kind, n in (("f32", "layer", 4096), ("f32", "rms", 16384), ("f16_f32_f16", "layer", 16384)):
        operation = NORM.make((2, n), types, kind=kind)
        body = operation.body("")
        for right, wrong in ((f"constant {n}.0", f"constant {n - 1}.0"), (repr(EPSILON), "1.0e-06")):
            assert right in body
            yield f"{wrong} for {right}", operation, body.replace(right, wrong)
    operation = ATTENTION.make((1, 16, 16, 64, 4096), "f16")
    yield "the last key left out", operation, _without_last_key(operation)


@pytest.mark.iree
def test_a_compiled_module_with_an_error_at_real_sizes_is_reported(workspace: Workspace, tmp_path: Path) -> None:  # noqa: F811
    wrong = list(_wrong())
    right = [(operation, operation.body("")) for operation in dict.fromkeys(operation for _, operation, _ in wrong)]
    flags = TARGETS["llvm-cpu"].resolved_flags(workspace.resolver.host, workspace.resolver.syntax)
    functions = [*right, *((operation, body) for _, operation, body in wrong)]
    record = workspace.executor.compile_module(module(functions).encode(), flags)
    assert record.ok, record.reason
    vmfb = workspace.store.path(record.outputs["vmfb"])
    found = [
        different(operation, called(workspace, vmfb, f"f{i}", operation, "counted", tmp_path), "counted")
        for i, (operation, _) in enumerate(functions)
    ]
    assert found[: len(right)] == [False] * len(right)
    assert [what for (what, _, _), told in zip(wrong, found[len(right) :], strict=True) if not told] == []
