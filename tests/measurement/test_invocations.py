"""`dispatchflow.run` checks inputs and expected results against the module before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from dispatchflow import microbenchmark
from dispatchflow.errors import SpecError
from dispatchflow.iree.module_metadata import ModuleMetadata
from dispatchflow.iree.rotation import Operand
from dispatchflow.measurement.invocations import Call, Input, Invocation, checked
from dispatchflow.mlir.functions import Declaration

FUNCTIONS = {
    "main": Declaration(("?x4xbf16", "i32", "4xi8"), ("?x4xbf16", "f32")),
    "later": Declaration(("4xf32",), ("4xf32",)),
}
METADATA = ModuleMetadata("net", FUNCTIONS, frozenset({"later"}))
X = np.ones((3, 4), ml_dtypes.bfloat16)
BYTES = np.arange(4, dtype=np.uint8)


def call(*inputs: Any, function: str = "main", expected: Any = None) -> Call:
    return checked(Invocation("net", b"", function, inputs, expected=expected), b"", METADATA)


def test_arrays_of_all_types_and_numbers_are_operands() -> None:
    found = call(Input(X, cold=True), 7, BYTES, expected=[X, 2.5])

    assert found.operands == (
        Operand((3, 4), "bf16", 24, True),
        Operand(None, "i32", 0, False),
        Operand((4,), "i8", 4, False),
    )
    assert found.values == (X.tobytes(), b"7", bytes(range(4)))
    assert found.expected == (("3x4xbf16", X.tobytes()), ("f32", np.float32(2.5).tobytes()))
    assert found.cold


def test_an_array_in_column_major_order_is_passed_in_row_major_order() -> None:
    wanted = np.arange(12, dtype=np.float32).reshape(3, 4).astype(ml_dtypes.bfloat16)

    assert call(np.asfortranarray(wanted), 7, BYTES).values[0] == wanted.tobytes()


@pytest.mark.parametrize(
    ("function", "inputs", "message"),
    [
        ("mian", (), "no function 'mian':.*functions +main, later.*Did you mean 'main'"),
        ("main", (X,), "inputs given: 1; main takes 3:.*takes +.x4xbf16, i32, 4xi8"),
        ("main", (X, 7, BYTES.astype(np.int16)), "input 2 is 4xi16, the function has 4xi8"),
        ("main", (X.astype(float), 7, BYTES), "input 0 is 3x4xf64.*numpy's floats are f64"),
        ("main", (X, 7, np.zeros((2, 2), np.int8)), "input 2 is 2x2xi8"),
        ("main", (X, 7, BYTES.astype(complex)), "input 2 is complex128.*no known element type"),
        ("main", (X, [7, 8], BYTES), "input 1 is int64 with 2 elements; the function has the number i32"),
        ("main", (X, 7.5, BYTES), "input 1 is float64"),
        ("main", ("3x4xbf16", 7, BYTES), "input 0 is '3x4xbf16', neither a number nor an array:.*numpy.zeros"),
        ("main", (X, 7, Path("x.npy")), r"input 2 is PosixPath\('x.npy'\), neither"),
        ("main", (None, 7, BYTES), "input 0 is None, neither"),
        ("main", (X, Input(7, cold=True), BYTES), "input 1 is the bare number i32"),
        ("main", (X, [[1], [2, 3]], BYTES), "input 1 is no array"),
        ("later", (Input(np.ones(4, np.float32), cold=True),), "takes fences.*cold=False"),
    ],
)
def test_operands_that_do_not_fit_are_refused(function: str, inputs: tuple[Any, ...], message: str) -> None:
    with pytest.raises(SpecError) as error:
        call(*inputs, function=function)
    assert __import__("re").search(message, str(error.value).replace("\n", " ")), str(error.value)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ("model=w.npz", "format of these parameters is not known.*model=w.npz.*irpa, .gguf"),
        (["model=absent.irpa"], "not in a file.*absent.irpa"),
    ],
)
def test_parameters_that_cannot_be_read_are_refused(parameters: Any, message: str) -> None:
    with pytest.raises(SpecError) as error:
        checked(Invocation("net", b"", "later", [BYTES.astype("f4")], parameters=parameters), b"", METADATA)
    assert __import__("re").search(message, str(error.value).replace("\n", " ")), str(error.value)


def test_expected_results_must_have_the_function_s_types() -> None:
    with pytest.raises(SpecError, match="expected results given: 1; main gives 2"):
        call(X, 7, BYTES, expected=[X])
    with pytest.raises(SpecError, match="expected result 0 is 3x4xf32"):
        call(X, 7, BYTES, expected=[X.astype(np.float32), 2.5])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"device": "local-snyc"}, "unknown device"),
        ({"protocol": "fats"}, "unknown protocol"),
        ({"invocations": [Invocation("a", b"", "f"), Invocation("a", b"", "g")]}, "two invocations have one name"),
        ({"invocations": [Invocation("a b", b"", "f")], "trace": "t"}, "a name is a file's"),
    ],
)
def test_wrong_arguments_of_run_are_refused(words: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        microbenchmark.run(**{"invocations": [], **words})
