"""A library such as numpy computes an operation correctly, or the case is skipped with a reason."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from support.product import SHAPES_OF, chosen_of, operation_of

from dispatchflow.cases.provider import call_text, unsupported
from dispatchflow.iree.targets import TARGETS
from dispatchflow.libraries import _harness
from dispatchflow.libraries.providers import LIBRARIES, Library
from dispatchflow.operations import OPERATIONS, Operation
from dispatchflow.verification import inputs, reference, verdict
from dispatchflow.workload import Kind

pytest_plugins = ["support.project"]

SMALL = ((7, 5, 9, 6), (1, 5, 7, 3))
"""Shapes with unequal dims and with a dim of 1. Larger dims would not change how a library is called."""
HARNESSES: dict[str, Any] = {"numpy": _harness.Numpy, "torch": _harness.Torch}


@pytest.fixture(scope="session", params=[name for name, each in LIBRARIES.items() if each.computes is Kind.OPERATIONS])
def library(request: pytest.FixtureRequest) -> Library:
    if importlib.util.find_spec(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return LIBRARIES[request.param]


def every(cls: type[Operation]) -> Iterator[Operation]:
    shapes = SHAPES_OF.get(cls.name, SMALL)
    for signature, layout, chosen, shape in product(cls.signatures, cls.layouts, chosen_of(cls), shapes):
        yield operation_of(cls, shape, signature, layout, chosen)


def computed(library: Library, operation: Operation, operands: list[np.ndarray]) -> np.ndarray:
    """Return what the library computes from `operands`. The library runs in this process."""
    harness = HARNESSES[library.name]("cpu", 1)
    names: dict[str, Any] = {}
    exec(call_text(library, operation), names)
    given = [
        harness.read(operand.type.element.numpy_name, operand.type.shape, bytearray(array.tobytes()))
        for operand, array in zip(operation.operands(), operands, strict=True)
    ]
    content = harness.content(names["main"](*given))
    result = operation.result()
    return np.frombuffer(content, inputs.dtype_of(result.element)).reshape(result.shape)


def verdicts(library: Library, operation: Operation) -> Iterator[verdict.Verdict]:
    for recipe in operation.recipes:
        operands = inputs.made(operation, recipe)
        got = computed(library, operation, operands)
        if operation.compares_bits(recipe):
            yield verdict.compare_bits(got, reference.expected(operation, operands))
        else:
            yield verdict.compare_bounded(got, *reference.bounds(operation, operands, recipe))


@pytest.mark.parametrize("cls", OPERATIONS.values(), ids=lambda cls: cls.name)
def test_every_call_is_right_or_a_skip(cls: type[Operation], library: Library) -> None:
    wrong = []
    for operation in every(cls):
        reason = unsupported(library, operation, TARGETS["llvm-cpu"])
        if reason is not None:
            assert reason
            continue
        try:
            found = [v for v in verdicts(library, operation) if not v.passed]
        except Exception as error:
            found = [error]
        wrong += [
            f"{operation.shape_name}: {call_text(library, operation).splitlines()[-1].strip()}: {v}" for v in found
        ]

    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("mask", ["no", "yes"])
@pytest.mark.parametrize("keys", [7, 9])
def test_causal_attention_counts_from_the_last_key(keys: int, mask: str, library: Library) -> None:
    # PyTorch's `is_causal` counts from the first key, which is right only for as many queries as keys.
    attention = OPERATIONS["attention"].make((2, 7, 5, 4, keys), mask=mask, causal="yes")

    assert unsupported(library, attention, TARGETS["llvm-cpu"]) is None
    assert all(found.passed for found in verdicts(library, attention))
    native = library.name == "torch" and keys == 7 and mask == "no"
    assert ("is_causal" in call_text(library, attention)) == native


def test_a_dynamic_product_has_the_call_of_the_static_one(library: Library) -> None:
    # The dynamic product and the static product have the same inputs, and are measured once.
    for cls, sizes in ((OPERATIONS["matmul"], (3, 5, 7)), (OPERATIONS["batch_matmul"], (2, 3, 5, 7))):
        static = cls.make(sizes, epilogue="bias")
        for words in cls.options["dynamic"].values:
            dynamic = cls.make(sizes, epilogue="bias", dynamic=words)
            assert unsupported(library, dynamic, TARGETS["llvm-cpu"]) is None
            assert call_text(library, dynamic) == call_text(library, static)
            assert all(found.passed for found in verdicts(library, dynamic))


@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("padding", [0, 2])
@pytest.mark.parametrize("name", ["conv2d", "depthwise_conv2d", "pooling", "quantized_conv2d"])
def test_windows_of_numpy_have_the_elements_of_the_reference_s_windows(name: str, padding: int, dilation: int) -> None:
    cls, numpy = OPERATIONS[name], LIBRARIES["numpy"]
    sizes = {"n": 2, "h": 9, "w": 8, "c": 3, "f": 4, "kh": 3, "kw": 2}
    for layout, kind in product(cls.layouts, cls.options["kind"].values if "kind" in cls.options else [None]):
        words = {"stride": 2, "padding": padding, "dilation": dilation} | ({"kind": kind} if kind else {})
        operation = cls.make([sizes[dim] for dim in cls.dims], layout=layout, **words)

        assert unsupported(numpy, operation, TARGETS["llvm-cpu"]) is None
        assert all(found.passed for found in verdicts(numpy, operation)), call_text(numpy, operation)


def test_a_call_that_ignores_an_option_is_a_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    cls, numpy = OPERATIONS["matmul"], LIBRARIES["numpy"]
    accumulating = cls.make((4, 5, 6), accumulate="yes")
    assert unsupported(numpy, accumulating, TARGETS["llvm-cpu"]) is None

    monkeypatch.setattr(cls, "library_options", ())

    assert unsupported(numpy, accumulating, TARGETS["llvm-cpu"]) == (
        "no numpy call is written for matmul with accumulate other than no"
    )
    assert unsupported(numpy, cls.make((4, 5, 6)), TARGETS["llvm-cpu"]) is None


def test_an_operation_without_a_call_is_a_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OPERATIONS["softmax"], "library_call", Operation.library_call)

    softmax = OPERATIONS["softmax"].make((4, 5))

    assert unsupported(LIBRARIES["numpy"], softmax, TARGETS["llvm-cpu"]) == "no numpy call is written for softmax"
