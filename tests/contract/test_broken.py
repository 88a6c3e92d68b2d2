"""If a test breaks a numpy reference or an MLIR module on purpose, the verdict is `different`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.product import DEFAULT
from support.square_cases import SIGNATURES, default_case, of, verified

from dispatchflow.cases.case import Case
from dispatchflow.cases.dispatch import Dispatch, _module
from dispatchflow.iree.targets import TARGETS
from dispatchflow.operations import OPERATIONS, Operation
from dispatchflow.project.workspace import Workspace
from dispatchflow.store.entries import Record
from dispatchflow.tunings import TUNINGS

pytest_plugins = ["support.square_cases"]
pytestmark = pytest.mark.iree


def assert_different(record: Record, case: Case) -> None:
    assert not record.ok
    facts = record.facts
    assert facts["verification"] == "different"
    shape = case.operation.result().shape
    assert len(facts["worst_index"]) == len(shape)
    assert all(0 <= i < size for i, size in zip(facts["worst_index"], shape, strict=True))
    assert facts["worst_got"] != facts["worst_expected"]
    assert f"got {facts['worst_got']}, expected {facts['worst_expected']}" in (record.reason or "")
    assert any(name.startswith("got_") for name in record.outputs)


def without_last_term(operation: Operation, operands: list[Any]) -> list[Any]:
    """Return copies of the operands, changed so that the last term of each sum is 0.

    In `A @ B`, the last column of A becomes 0."""
    changed = [operand.copy() for operand in operands]
    for operand, array in zip(operation.operands(), changed, strict=True):
        if operand.summed:
            array[tuple(-1 if axis in operand.summed else slice(None) for axis in range(array.ndim))] = 0
    return changed


def transposed(array: Any) -> Any:
    return np.swapaxes(array, -1, -2) if array.ndim > 1 else array


BROKEN_REFERENCES: dict[str, Callable[[Operation, list[Any]], list[Any]]] = {
    "drops the last term": without_last_term,
    "swaps operands": lambda operation, operands: operands[::-1],
    "transposes the last operand": lambda operation, operands: [*operands[:-1], transposed(operands[-1])],
    "transposes the first operand": lambda operation, operands: [transposed(operands[0]), *operands[1:]],
}


def matters(broken: str, cls: type[Operation], signature: str) -> bool:
    """Return whether the mistake `broken`, such as `swaps operands`, changes a numpy reference's result.

    Returns False if an operand's shape changes."""
    operation = default_case(cls, signature).operation
    assert isinstance(operation, Operation)
    draw = np.random.default_rng(1)
    operands = [draw.uniform(1, 2, operand.type.shape) for operand in operation.operands()]
    wrong = BROKEN_REFERENCES[broken](operation, operands)
    # With operands of other shapes, the reference may raise an exception instead of giving a wrong result.
    if [array.shape for array in wrong] != [array.shape for array in operands]:
        return False
    return not np.allclose(operation.reference(wrong), operation.reference(operands), rtol=1e-3)


def pairs_of(broken: dict[str, Any], wanted: Callable[[str, type[Operation], str], bool]) -> list[Any]:
    return [
        pytest.param(word, *parameter.values, id=f"{parameter.id}-{word}", marks=parameter.marks)
        for word in broken
        for parameter in SIGNATURES
        if wanted(word, *parameter.values)
    ]


@pytest.mark.parametrize(("cls", "signature"), SIGNATURES)
def test_the_squares_are_right_before_anything_is_broken(
    cls: type[Operation], signature: str, squares: Workspace
) -> None:
    assert verified(squares, default_case(cls, signature)).ok


@pytest.mark.parametrize(("broken", "cls", "signature"), pairs_of(BROKEN_REFERENCES, matters))
def test_a_broken_reference_is_detected(
    broken: str, cls: type[Operation], signature: str, squares: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, right = default_case(cls, signature), cls.reference
    monkeypatch.setattr(cls, "reference", lambda self, operands: right(self, BROKEN_REFERENCES[broken](self, operands)))

    assert_different(verified(squares, case), case)


def other_layout(operation: Operation, body: Callable[..., str], attribute: str) -> str:
    return body(replace(operation, layout=operation.layout[:-1] + "n"), attribute)


def begins_with_one(operation: Operation, body: Callable[..., str], attribute: str) -> str:
    return re.sub(r"arith\.constant 0(\.0)? ", r"arith.constant 1\1 ", body(operation, attribute))


def writes_the_first_half(operation: Operation, body: Callable[..., str], attribute: str) -> str:
    text, (rows, *rest) = body(operation, attribute), operation.result().shape
    result, element = operation.result().mlir, operation.result().element.mlir
    half = [rows // 2, *rest]
    sizes, zeros, ones = (", ".join(map(str, v)) for v in (half, [0] * len(half), [1] * len(half)))
    part = f"tensor<{'x'.join(map(str, half))}x{element}>"
    match = re.search(r"    return (%\w+) : .*\n$", text)
    assert match
    return f"""\
{text[: match.start()]}    %half = tensor.extract_slice {match[1]}[{zeros}] [{sizes}] [{ones}] : {result} to {part} loc(unknown)
    %nothing = tensor.empty() : {result} loc(unknown)
    %whole = tensor.insert_slice %half into %nothing[{zeros}] [{sizes}] [{ones}] : {part} into {result} loc(unknown)
    return %whole : {result} loc(unknown)
"""


BROKEN_BODIES = {
    "reads the last operand the other way": other_layout,
    "begins its sum with one": begins_with_one,
    "writes half of its result": writes_the_first_half,
}


def changes(broken: str, cls: type[Operation], signature: str) -> bool:
    """Return whether the error `broken`, a key of `BROKEN_BODIES`, can be planted in an operation.

    The error must change the text of the operation's MLIR body, and the changed body must compile."""
    operation = default_case(cls, signature).operation
    assert isinstance(operation, Operation)
    if broken == "reads the last operand the other way" and operation.layout[:-1] + "n" not in cls.layouts:
        return False
    if broken == "writes half of its result" and not operation.result().shape:
        return False
    if broken == "writes half of its result" and signature == "f4E2M1FN":
        # IREE 3.13 does not compile it: inferred input/output operand #2 has shape's dimension #0 to be 16
        return False
    return BROKEN_BODIES[broken](operation, cls.body, "") != operation.body("")


def one_of_each(parameters: list[Any]) -> list[Any]:
    """Return the test parameters, with all except one for each operation marked as `slow`."""
    found, operations = [], list(OPERATIONS.values())
    for parameter in parameters:
        _, cls, signature = parameter.values
        own = [p for p in parameters if p.values[1:] == (cls, next(iter(cls.signatures)))]
        # The kinds of errors take turns from operation to operation.
        quick = signature == next(iter(cls.signatures)) and parameter is own[operations.index(cls) % len(own)]
        found.append(parameter if quick else pytest.param(*parameter.values, id=parameter.id, marks=pytest.mark.slow))
    return found


BROKEN_MODULES = one_of_each(pairs_of(BROKEN_BODIES, changes))


def test_every_kind_and_operation_is_among_the_quick_broken_modules() -> None:
    quick = [p.values for p in BROKEN_MODULES if not p.marks]
    assert {word for word, _, _ in quick} == BROKEN_BODIES.keys()
    assert {cls for _, cls, _ in quick} == {p.values[1] for p in BROKEN_MODULES}


@pytest.mark.parametrize(("broken", "cls", "signature"), BROKEN_MODULES)
def test_a_broken_module_is_detected(
    broken: str, cls: type[Operation], signature: str, squares: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, right = default_case(cls, signature), cls.body
    monkeypatch.setattr(cls, "body", lambda self, attribute: BROKEN_BODIES[broken](self, right, attribute))

    assert_different(verified(squares, case), case)


CAUSAL = of("attention", (1, 8, 8, 8, 12), causal="yes")
QUANTIZED = of("quantized_conv2d", (1, 6, 6, 4, 4, 3, 3), padding=1, weight_zp=5)
GROUPED = of("conv2d", (1, 6, 6, 4, 4, 3, 3), groups=2)
CHANGED_WORDS: dict[str, tuple[Operation, str, str]] = {
    "causal from the first key": (CAUSAL, "%before = arith.constant 4", "%before = arith.constant 0"),
    "causal with a mask off by one": (replace(CAUSAL, chosen=("yes", "yes")), "cmpi sle", "cmpi slt"),
    "wrong zero point of the image": (QUANTIZED, "%scalar0 = arith.constant -128", "%scalar0 = arith.constant -127"),
    "padded with 0": (QUANTIZED, "%border = arith.constant -128", "%border = arith.constant 0"),
    "zero points swapped": (
        of("quantized_matmul", (16, 16, 16), weight_zp=5),
        "%arg1, %scalar0, %scalar1",
        "%arg1, %scalar1, %scalar0",
    ),
    "groups inside of channels": (GROUPED, "* 1 + j * 1, g, c)", "* 1 + j * 1, c, g)"),
    "one group for all": (GROUPED, "* 1 + j * 1, g, c)", "* 1 + j * 1, 0, c)"),
    "dynamic sizes and operands swapped": (
        of("matmul", (16, 16, 16), dynamic="mnk"),
        "ins(%arg0, %arg1",
        "ins(%arg1, %arg0",
    ),
}
"""Errors to plant in the modules of operations with certain options.

A dict from the description of an error to (operation, correct text in its MLIR, wrong text)."""


def test_a_changed_word_in_a_module_is_detected(squares: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    default, target = TUNINGS["default"].expand({})[0], TARGETS["llvm-cpu"]
    cases = {word: Case(Dispatch(planted[0], default), target, 1) for word, planted in CHANGED_WORDS.items()}
    for case in {planted[0]: cases[word] for word, planted in CHANGED_WORDS.items()}.values():
        squares.executor.compile(case)
        assert verified(squares, case).ok, case.name
    for word, (operation, right, wrong) in CHANGED_WORDS.items():
        text = operation.body("")
        assert text.count(right) == 1, word
        with monkeypatch.context() as broken:
            changed = text.replace(right, wrong)
            broken.setattr(type(operation), "body", lambda self, attribute, changed=changed: changed)
            _module.cache_clear()
            compiled = squares.executor.compile(cases[word])
            assert compiled.ok, (word, compiled.reason)
            assert_different(verified(squares, cases[word]), cases[word])
        _module.cache_clear()


UNFUSED: dict[str, tuple[str, dict[str, Any], tuple[tuple[str, str], ...]]] = {
    "a bias left out": ("matmul", {"epilogue": "bias"}, (("%t, %p", "%t, %zero"),)),
    "a bias of the rows": ("matmul", {"epilogue": "bias"}, (("(m, n) -> (n)", "(m, n) -> (m)"),)),
    "a relu before the bias": (
        *("matmul", {"epilogue": "bias+relu"}),
        (("addf %t, %p", "maximumf %t, %least"), ("maximumf %x, %least", "addf %x, %p")),
    ),
    "slices of which the largest counts": ("matmul_splitk", {}, (("addf %so_far, %part", "maximumf %so_far, %part"),)),
    "a chain's first product for its last": ("chain", {}, (("ins(%first, %arg2", "ins(%first, %arg1"),)),
}
"""Errors to plant in the part of an operation's MLIR that follows a sum.

A dict from the description of an error to (operation, options, [(correct text, wrong text)])."""


@pytest.mark.parametrize("broken", UNFUSED)
def test_an_error_in_the_code_after_a_sum_is_detected(
    broken: str, squares: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, options, changes = UNFUSED[broken]
    cls = OPERATIONS[name]
    operation, right = cls.make((16,) * len(cls.dims), **options), cls.body
    text = wrong = right(operation, "")
    for old, new in changes:
        assert old in wrong
        wrong = wrong.replace(old, new)
    assert wrong != text
    monkeypatch.setattr(cls, "body", lambda self, attribute: wrong)
    case = Case(Dispatch(operation, DEFAULT), TARGETS["llvm-cpu"], 1)

    assert_different(verified(squares, case), case)
