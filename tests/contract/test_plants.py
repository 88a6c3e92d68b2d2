"""Verification detects errors that the tests plant in operations.

The errors are planted in the numpy references of many variants of an operation, and in the compiled modules of a
few variants. Errors that any operation may have are planted in every registered operation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.generic_faults import Plant, plants
from support.operation_faults import PLANTED
from support.variants import by_name, is_told

from dispatchflow.iree import command_lines
from dispatchflow.iree.targets import TARGETS
from dispatchflow.operations import OPERATIONS, Operation
from dispatchflow.project.workspace import Workspace
from dispatchflow.store.entries import Record
from dispatchflow.tools import processes
from dispatchflow.verification.inputs import dtype_of, made, random
from dispatchflow.verification.reference import bounds, expected, widened
from dispatchflow.verification.verdict import compare_bits, compare_bounded


def variants(name: str) -> list[Operation]:
    """Return all variants with an operation's first type, and one variant for each other type.

    Variants differ in types, layout and options (see `support.variants`). The variant for another type has the
    first layout and the first value of each option."""
    first = by_name(name)[0]
    return [
        operation
        for operation in by_name(name)
        if operation.signature is first.signature
        or (operation.layout, operation.chosen) == (first.layout, first.chosen)
    ]


def spoilt(operation: Operation, plant: Plant, right: Sequence[Any]) -> Any:
    return operation.reference(plant.operands(right))


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_error_in_an_operand_is_detected_unless_the_result_is_the_same(name: str) -> None:
    kinds = set()
    for operation in variants(name):
        for plant in plants(operation):
            if is_told(operation, partial(spoilt, operation, plant)):
                kinds.add(plant.kind)
                continue
            for recipe in operation.recipes:
                right = widened(made(operation, recipe))
                assert np.allclose(spoilt(operation, plant, right), operation.reference(right), rtol=1e-12), plant.name
    assert kinds >= {"without the end", "shifted by one", "left out"}


@lru_cache(1)
def usual(operation: Operation) -> list[Any]:
    return widened(random(operation))


@pytest.mark.parametrize("name", PLANTED)
def test_errors_specific_to_an_operation_are_detected_in_all_types_layouts_and_options(name: str) -> None:
    # Variants are the outer loop, because expected results are cached for only a few variants.
    told = set()
    for operation in by_name(name):
        for error, wrong in PLANTED[name].items():
            if is_told(operation, partial(wrong, operation)):
                told.add(error)
                continue
            operands = usual(operation)
            result = wrong(operation, [array.copy() for array in operands])
            # An error may stay unreported only if it cannot occur here, or does not change the result.
            no_error = result is None or np.allclose(result, operation.reference(operands), rtol=1e-9)
            assert no_error, f"{error}: {operation.shape_name}"
    assert told == set(PLANTED[name])


# --- compiled


EDITS: dict[str, list[tuple[str, dict[str, Any], str, str]]] = {
    **{
        name: [("padding off by one", {"padding": 1}, "low[0, 1, 1, 0] high[0, 1,", "low[0, 0, 1, 0] high[0, 2,")]
        for name in ("conv2d", "depthwise_conv2d", "pooling")
    },
    "matmul": [("a layout not minded", {"layout": "tn"}, "(n, k)>", "(k, n)>")],
    "batch_matmul": [("a layout not minded", {"layout": "nt"}, "(b, k, m)>", "(b, m, k)>")],
    "attention": [("another scale", {}, "%scale = arith.constant 0.25 ", "%scale = arith.constant 0.5 ")],
    "softmax": [("the other axis", {}, "dimension(1)", "dimension(0)")],
    "reduction": [("begins with one", {}, "constant 0.0 ", "constant 1.0 ")],
    "norm": [
        ("the mean left out", {}, "%d = arith.subf %x, %mean", "%d = arith.subf %x, %zero"),
        ("a mean too few", {}, "%count = arith.constant 8.0", "%count = arith.constant 7.0"),
    ],
    "transpose": [("not transposed", {}, "permutation = [1, 0]", "permutation = [0, 1]")],
    "elementwise": [("another factor", {"kind": "gelu"}, "0.70710678118654752", "0.70710")],
}
"""A dict from an operation's name to a list of errors in its MLIR.

An error is (description, options and layout of the operation, correct text, wrong text)."""


def edited(name: str) -> list[tuple[str, Operation, str]]:
    """Return (description, operation, wrong MLIR body) for each error that `EDITS` has for an operation."""
    found = []
    for what, words, right, wrong in EDITS.get(name, ()):
        own = dict(words)
        operation = OPERATIONS[name].make(by_name(name)[0].sizes, None, own.pop("layout", None), **own)
        body = operation.body("")
        assert right in body, f"{name}: this text is not emitted any more: {right}"
        found.append((what, operation, body.replace(right, wrong)))
    return found


def chosen(name: str, every: bool) -> list[tuple[str, Operation, str]]:
    """Return wrong MLIR bodies for the operation `name`, as (description, operation, wrong body).

    If `every` is false, each kind of error occurs once."""
    first = by_name(name)[0]
    # Plants edit operands of static sizes only.
    of_first = [o for o in by_name(name) if o.signature is first.signature and not o.dynamic_dims]
    operation = max(of_first, key=lambda o: (len(o.operands()), sum(map(str.__ne__, *map(_words, (o, first))))))
    found: dict[str, Plant] = {}
    for plant in plants(operation):
        # An error that verification does not detect in numpy's result cannot be tested in compiled code.
        if any(
            different(operation, spoilt(operation, plant, widened(made(operation, r))), r) for r in recipes(operation)
        ):
            if every or plant.kind == "left out" or plant.in_sum:
                found[plant.name if every else plant.kind] = plant
            else:
                found.setdefault(plant.kind, plant)
    return [(plant.name, operation, plant.body(operation.body(""))) for plant in found.values()]


def _words(operation: Operation) -> list[str]:
    return [*map(str, operation.chosen), operation.layout]


def recipes(operation: Operation) -> tuple[str, ...]:
    """Return the recipes (ways to make inputs) to test: `exact` if the operation has it, else all.

    The inputs of `exact` show every planted error."""
    return operation.recipes[:1] if "exact" in operation.recipes else operation.recipes


def different(operation: Operation, result: Any, recipe: str) -> bool:
    operands = made(operation, recipe)
    with np.errstate(over="ignore", invalid="ignore"):
        got = np.asarray(result).astype(dtype_of(operation.signature.result))
    if operation.compares_bits(recipe):
        return compare_bits(got, expected(operation, operands)).word == "different"
    return compare_bounded(got, *bounds(operation, operands, recipe)).word == "different"


def module(functions: Sequence[tuple[Operation, str]]) -> str:
    """Return an MLIR module with the functions `f0`, `f1`, …, one for each (operation, body).

    One module for all functions saves time, because starting the compiler takes longer than compiling a function."""
    texts = []
    for number, (operation, body) in enumerate(functions):
        arguments = ", ".join(f"%arg{i}: {operand.type.mlir}" for i, operand in enumerate(operation.operands()))
        texts.append(f"  func.func @f{number}({arguments}) -> {operation.result().mlir} {{\n{body}  }}\n")
    return f"module @planted {{\n{''.join(texts)}}}\n"


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace(tmp_path_factory.mktemp("plants"), {})


def called(workspace: Workspace, vmfb: Path, function: str, operation: Operation, recipe: str, folder: Path) -> Any:
    given = []
    for i, array in enumerate(made(operation, recipe)):
        (folder / f"in{i}.bin").write_bytes(np.ascontiguousarray(array).tobytes())
        given.append(f"{operation.operands()[i].type.mlir.removeprefix('tensor<').removesuffix('>')}=@in{i}.bin")
    tool, device = workspace.toolchain.tool("iree-run-module"), command_lines.device_flags("local-sync", ())
    argv = command_lines.run_argv(tool, str(vmfb), device, given, ["out.bin"], function)
    outcome = processes.run(processes.Command(argv, folder, {"LC_ALL": "C"}))
    assert outcome.failure is None, (folder / "stderr").read_text()
    return np.fromfile(folder / "out.bin", dtype_of(operation.signature.result)).reshape(operation.result().shape)


Wrong = list[tuple[str, Operation, str]]
EVERY = [pytest.param(False, id="some"), pytest.param(True, id="every", marks=[pytest.mark.slow, pytest.mark.nightly])]


@pytest.fixture
def compiled(name: str, every: bool, workspace: Workspace) -> tuple[Wrong, Record]:
    """Return (wrong functions of an operation, record of compiling them in one module).

    Each wrong function has one planted error. Before the wrong functions, the module has the correct ones
    (`right_of`)."""
    flags = TARGETS["llvm-cpu"].resolved_flags(workspace.resolver.host, workspace.resolver.syntax)
    wrong = [*edited(name), *chosen(name, every)]
    functions = [*((operation, operation.body("")) for operation in right_of(wrong)), *(each[1:] for each in wrong)]
    return wrong, workspace.executor.compile_module(module(functions).encode(), flags)


def right_of(wrong: Wrong) -> list[Operation]:
    return list(dict.fromkeys(operation for _, operation, _ in wrong))


@pytest.mark.iree
@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_error_in_a_compiled_module_is_detected(
    name: str,
    every: bool,
    compiled: tuple[Wrong, Record],
    workspace: Workspace,
    tmp_path: Path,
) -> None:
    wrong, record = compiled
    assert record.ok, record.reason
    vmfb, right = workspace.store.path(record.outputs["vmfb"]), right_of(wrong)

    found = [
        any(
            different(operation, called(workspace, vmfb, f"f{number}", operation, recipe, tmp_path), recipe)
            for recipe in recipes(operation)
        )
        for number, operation in enumerate([*right, *(operation for _, operation, _ in wrong)])
    ]

    assert found[: len(right)] == [False] * len(right), "what is right is told from the reference"
    missed = [what for (what, _, _), seen in zip(wrong, found[len(right) :], strict=True) if not seen]
    assert missed == []
