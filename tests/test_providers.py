"""What libraries compute instead of IREE: every (operation, library) pair is right, or a skip with a reason."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from test_contract import SHAPES, SHAPES_OF, chosen_of, operation_of

from dispatchflow import _provider, inputs, reference, verdict
from dispatchflow.operations import OPERATIONS, Operation
from dispatchflow.providers import LIBRARIES, Library
from dispatchflow.targets import TARGETS

HARNESSES: dict[str, Any] = {"numpy": _provider.Numpy, "torch": _provider.Torch}


@pytest.fixture(scope="session", params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> Library:
    if importlib.util.find_spec(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return LIBRARIES[request.param]


def every(cls: type[Operation]) -> Iterator[Operation]:
    """Each type and layout with each value of each option, and both shapes."""
    shapes = SHAPES_OF.get(cls.name, SHAPES)
    for signature, layout, chosen, shape in product(cls.signatures, cls.layouts, chosen_of(cls), shapes):
        yield operation_of(cls, shape, signature, layout, chosen)


def computed(library: Library, operation: Operation, recipe: str) -> np.ndarray:
    """As `_provider.py` does, but for the process of its own."""
    harness = HARNESSES[library.name]("cpu", 1)
    names: dict[str, Any] = {}
    exec(library.program(operation), names)
    operands = [
        harness.read(operand.type.element.numpy_name, operand.type.shape, bytearray(array.tobytes()))
        for operand, array in zip(operation.operands(), inputs.made(operation, recipe), strict=True)
    ]
    content = harness.content(names["main"](*operands))
    result = operation.result()
    return np.frombuffer(content, inputs.dtype_of(result.element)).reshape(result.shape)


def verdicts(library: Library, operation: Operation) -> Iterator[verdict.Verdict]:
    for recipe in operation.recipes:
        if recipe == "exact" and inputs.mistrust(operation):
            continue
        got, operands = computed(library, operation, recipe), inputs.made(operation, recipe)
        if recipe == "exact" or operation.bitwise:
            yield verdict.compare_bits(got, reference.expected(operation, operands))
        else:
            yield verdict.compare_bounded(got, *reference.bounds(operation, operands))


@pytest.mark.parametrize("cls", OPERATIONS.values(), ids=lambda cls: cls.name)
def test_every_call_is_right_or_a_skip(cls: type[Operation], library: Library) -> None:
    wrong = []
    for operation in every(cls):
        reason = library.lacks(operation, TARGETS["llvm-cpu"])
        if reason is not None:
            assert reason
            continue
        try:
            found = [v for v in verdicts(library, operation) if not v.passed]
        except Exception as error:
            found = [error]
        wrong += [f"{operation.shape_name}: {library.program(operation).splitlines()[-1].strip()}: {v}" for v in found]

    assert not wrong, "\n".join(wrong)
