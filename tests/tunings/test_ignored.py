"""A case fails if the compiler ignored its configuration or flag, or did not fuse its epilogue."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec.structs import replace as replace_struct
from support.product import DEFAULT, operation_of
from support.square_cases import default_case, of, verified, verify_is_not_reached

from dispatchflow.cases.case import Case
from dispatchflow.cases.dispatch import Dispatch
from dispatchflow.iree.targets import TARGETS
from dispatchflow.operations import OPERATIONS, Operation
from dispatchflow.project.workspace import Workspace
from dispatchflow.tunings import TUNINGS, Lowering

pytest_plugins = ["support.square_cases"]
pytestmark = pytest.mark.iree


@pytest.mark.parametrize(
    "operation",
    [
        of("matmul", (40, 24, 56), dynamic="mnk", epilogue="bias+relu"),
        of("conv2d", (2, 11, 9, 6, 10, 3, 2), padding=1, groups=2, epilogue="residual"),
        replace(of("conv2d", (1, 6, 6, 4, 4, 3, 3), groups=2, epilogue="bias"), layout="nchw_fchw"),
    ],
    ids=lambda operation: operation.shape_name,
)
def test_an_epilogue_is_fused_beside_other_options(operation: Operation, squares: Workspace) -> None:
    case = Case(Dispatch(operation, DEFAULT), TARGETS["llvm-cpu"], 1)

    compiled = squares.executor.compile(case)

    assert compiled.ok, compiled.reason
    assert verified(squares, case).ok


def replaced(lowering: Lowering, old: str, new: str) -> Lowering:
    changed = Lowering(lowering.prelude.replace(old, new), lowering.attribute.replace(old, new))
    assert changed != lowering
    return changed


IGNORED = {
    "a misspelt attribute": ("compilation_info = #", "compilation_inf0 = #"),
    "a rank too many": (", 0], vector_reduction = [0, ", ", 0, 0], vector_reduction = [0, 0, "),
    "a pipeline of other operations": ("DoubleTilingExpert", "ConvTileAndDecomposeExpert"),
}


@pytest.mark.parametrize("wrong", IGNORED)
def test_a_configuration_that_the_compiler_ignores_is_a_failure(
    wrong: str, squares: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    family = TUNINGS["double_tiling"]
    right, tuning = family.lowering, family.expand({})[0]
    monkeypatch.setattr(family, "lowering", lambda *given: replaced(right(*given), *IGNORED[wrong]))
    case = Case(Dispatch(default_case(OPERATIONS["matmul"], "f32").operation, tuning), TARGETS["llvm-cpu"], 1)

    compiled = squares.executor.compile(case)

    assert not compiled.ok
    assert (compiled.reason or "").startswith("configuration ignored: ")
    assert verify_is_not_reached(squares, case)


@pytest.mark.parametrize("in_region", [True, False])
def test_a_convolution_of_one_image_keeps_its_configuration_in_a_region_only(
    in_region: bool, squares: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without a `flow.dispatch.region`, the compiler replaces the op and loses its configuration.
    family = TUNINGS["conv_tile_and_decompose"]
    right, tuning = family.lowering, family.expand({})[0]
    monkeypatch.setattr(family, "lowering", lambda *given: replace_struct(right(*given), region=in_region))
    operation = OPERATIONS["conv2d"].make((1, 8, 8, 4, 4, 3, 3))

    compiled = squares.executor.compile(Case(Dispatch(operation, tuning), TARGETS["llvm-cpu"], 1))

    assert compiled.ok == in_region, compiled.reason
    assert (tuning.requested(operation) or "") in compiled.facts["applied"] or not in_region
    assert in_region or (compiled.reason or "").startswith("configuration ignored: asked for distribution = [0, 8, ")


@pytest.mark.parametrize("name", ["data_tiling", "split_k"])
def test_a_flag_that_did_nothing_is_a_failure(name: str, squares: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    family = TUNINGS[name]
    monkeypatch.setattr(family, "flags", ())
    operation = operation_of(OPERATIONS["matmul"], (24, 16, 16), "f32", "tt")
    case = Case(Dispatch(operation, family.expand({})[0]), TARGETS["llvm-cpu"], 1)

    compiled = squares.executor.compile(case)

    assert not compiled.ok
    assert (compiled.reason or "").startswith("configuration ignored: ")


@pytest.mark.parametrize(
    "operation",
    [
        OPERATIONS["matmul"].make((1, 1, 16), epilogue="bias"),
        OPERATIONS["conv2d"].make((1, 1, 1, 4, 1, 3, 3), padding=1, epilogue="bias"),
    ],
    ids=lambda operation: operation.name,
)
def test_an_epilogue_that_became_a_dispatch_of_its_own_is_a_failure(operation: Operation, squares: Workspace) -> None:
    # IREE 3.13 does not fuse the epilogue of a result with one element.
    case = Case(Dispatch(operation, DEFAULT), TARGETS["llvm-cpu"], 1)

    compiled = squares.executor.compile(case)

    assert not compiled.ok
    assert (compiled.reason or "").startswith("expected one dispatch, the compiler made 2: main_dispatch_0_")
    assert verify_is_not_reached(squares, case)


def test_a_convolution_that_has_its_padding_fused_is_one_dispatch_and_no_failure(squares: Workspace) -> None:
    operation = OPERATIONS["conv2d"].make((1, 10, 10, 8, 16, 3, 3), padding=1, epilogue="bias+relu")
    flag = "--iree-dispatch-creation-enable-fuse-padding-into-linalg-consumer-ops"

    compiled = squares.executor.compile(Case(Dispatch(operation, DEFAULT), TARGETS["llvm-cpu"], 1, (flag,)))

    assert compiled.ok, compiled.reason
    assert len(compiled.facts["dispatches"]) == 1
