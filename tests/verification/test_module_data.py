"""A user's module gets the requested inputs, and its results are compared with expected results."""

import re

import numpy as np
import pytest

from dispatchflow.cases import module
from dispatchflow.cases.module import File, Input, Module
from dispatchflow.engine import verify_module
from dispatchflow.errors import ToolError
from dispatchflow.keys import digest_of
from dispatchflow.mlir.functions import BUFFER_VIEW
from dispatchflow.verification import module_data
from dispatchflow.verification.inputs import dtype_of


def made(inputs, types, **fields):
    program = Module(File("f", digest_of(b"")), "t", "main", inputs and tuple(inputs), **fields)
    return module_data.arguments(program, types)


@pytest.mark.parametrize("element", module.ELEMENT_TYPES)
def test_infinities_nan_and_extreme_values_are_passed_unchanged(element):
    words = {"f8E4M3FN": "nan 448", "i1": "0 1", "i8": "-128 127"}.get(element, "inf nan" if "f" in element else "0 -1")
    values = np.array([float(word) for word in words.split()])
    ((_, content),) = made([Input(f"2x{element}", words)], [f"2x{element}"])
    held = np.frombuffer(content, dtype_of(module.ELEMENT_TYPES[element])).astype("float64")
    assert np.array_equal(held, values, equal_nan=True)


def test_recipes_literals_and_numbers_become_bytes():
    found = made([Input("2x2xf32", "0.5"), Input("3xi16", "1 2 3"), Input(None, "7")], ["?x2xf32", "3xi16", "i32"])
    assert found == [
        ("2x2xf32", np.full(4, 0.5, "float32").tobytes()),
        ("3xi16", np.array([1, 2, 3], "int16").tobytes()),
        ("=7", b"7"),
    ]
    exact = made([Input("2xi64", "9007199254740993 -9223372036854775808"), Input("i64", "1e3")], ["2xi64", "i64"])
    assert exact == [("2xi64", np.array([2**53 + 1, -(2**63)], "int64").tobytes()), ("=1000", b"1000")]
    floats, integers, flags = made(None, ["64xf32", "64xi8", "64xi1"])
    values = np.frombuffer(floats[1], "float32")
    assert -1 <= values.min() < -0.5 < 0.5 < values.max() < 1
    assert len(set(np.frombuffer(integers[1], "int8"))) > 32
    assert set(flags[1]) == {0, 1}
    (small,) = made([Input(None, "integers")], ["64xf16"])
    assert set(np.frombuffer(small[1], "float16")) == set(range(-3, 4))


@pytest.mark.parametrize("element", ["i8", "i64", "f16", "f32"])
def test_a_range_has_each_of_its_numbers_and_no_other(element):
    ((spelling, content),) = made([Input(None, "-3..12")], [f"40x25x{element}"])
    found = np.frombuffer(content, {"i": "int", "f": "float"}[element[0]] + element[1:])
    assert spelling == f"40x25x{element}"
    assert sorted(set(found.tolist())) == list(range(-3, 13))


def test_a_range_may_be_as_wide_as_its_type():
    whole = f"{-(1 << 63)}..{(1 << 63) - 1}"
    ((_, content),) = made([Input("1000xi64", whole)], ["1000xi64"])
    found = np.frombuffer(content, "int64")
    assert found.min() < -(1 << 62) and found.max() > 1 << 62
    ((_, content),) = made([Input("1000xi64", "0..9000000000")], ["1000xi64"])
    assert np.frombuffer(content, "int64").min() >= 0 and 1 << 32 < np.frombuffer(content, "int64").max() <= 9000000000


@pytest.mark.parametrize(
    ("inputs", "types", "told"),
    [
        ([Input(None, "0..200")], ["4xi8"], "input 0: 200 is not representable as i8"),
        ([Input(None, "0..15")], ["i32"], "input 0 is the number i32: give it"),
        ([Input("4xf32", "1")], ["4xf32", "4xf32"], "inputs given: 1; main takes 2"),
        ([Input("4xf32", "1")], ["5xf32"], "input 0 is 4xf32, the function takes 5xf32"),
        ([Input("4xf16", "1")], ["4xf32"], "takes 4xf32"),
        ([Input("4xf32", "1 2")], ["4xf32"], "2 numbers; its type 4 elements,"),
        ([Input("1xf32", "1 2")], ["1xf32"], "2 numbers; its type 1 element,"),
        ([Input("4xi32", "1")], ["4xf32"], "input 0 is 4xi32, the function takes 4xf32"),
        ([Input("4xbf16", "1")], ["4xf16"], "input 0 is 4xbf16, the function takes 4xf16"),
        ([Input("2xi8", "1 2.5")], ["2xi8"], "input 0: 2.5 is not representable as i8"),
        ([Input("2xi1", "-1")], ["2xi1"], "input 0: -1 is not representable as i1, 0 … 1"),
        ([Input("2xf16", "1 -70000")], ["2xf16"], "input 0: -70000 is not representable as f16"),
        ([Input(None, "5")], ["4x8xf32"], 'input 0 is a bare number, the function takes 4x8xf32: "4x8xf32=5" fills it'),
        ([Input(None, "5")], ["tensor<f32>"], '"tensor<f32>=5" fills it'),
        ([Input(None, "99999999999")], ["i32"], "input 0: 99999999999 is not representable as i32"),
        ([Input(None, "5.7")], ["i32"], "input 0: 5.7 is not representable as i32"),
        ([Input(None, "1e39")], ["f32"], "input 0: 1e39 is not representable as f32"),
        ([Input("i64", "5")], ["i32"], "input 0 is i64, the function takes i32"),
        (None, ["?x4xf32"], "give its sizes"),
        (None, ["i32"], "give it"),
        (None, ["!hal.fence"], "does not know"),
        (None, ["!hal.buffer_view"], 'has any type: give one, inputs = ["4x8xf32", …]'),
        ([Input(None, "5")], ["!hal.buffer_view"], "has any type: give one"),
        ([Input("i32", "5")], ["!hal.buffer_view"], "input 0 is i32, the function takes !hal.buffer_view"),
        ([Input("?xf32", "5")], ["!hal.buffer_view"], "give its sizes"),
    ],
)
def test_inputs_that_do_not_fit_the_argument_types_are_reported(inputs, types, told):
    with pytest.raises(ToolError) as error:
        made(inputs, types)
    assert told in error.value.problem


def test_arrays_come_from_files_in_the_order_of_rows(tmp_path):
    array = np.asfortranarray(np.arange(6, dtype="float32").reshape(2, 3))
    np.save(tmp_path / "a.npy", array)
    file = File(str(tmp_path / "a.npy"), digest_of((tmp_path / "a.npy").read_bytes()))
    assert made([Input(None, None, file)], ["2x3xf32"]) == [("2x3xf32", np.arange(6, dtype="float32").tobytes())]
    assert made([Input(None, None, file)], [BUFFER_VIEW]) == made([Input(None, None, file)], ["2x3xf32"])
    assert made([Input("4xf16", "0.5")], [BUFFER_VIEW]) == made([Input("4xf16", "0.5")], ["4xf16"])
    with pytest.raises(ToolError, match="is 2x3xf32, the function takes 3x2xf32"):
        made([Input(None, None, file)], ["3x2xf32"])
    np.save(tmp_path / "one.npy", np.float32(5))
    one = File(str(tmp_path / "one.npy"), digest_of((tmp_path / "one.npy").read_bytes()))
    assert made([Input(None, None, one)], ["tensor<f32>"]) == [("f32", np.float32(5).tobytes())]
    with pytest.raises(ToolError, match="is 2x3xf32, the function takes 2x3xi32"):
        made([Input(None, None, file)], ["2x3xi32"])
    program = Module(file, "t", "main", expected=(file,))
    for results in (["i32", "2x3xf32"], ["i32", "?x3xf32"]):
        assert module_data.expected(program, results) == {1: ("2x3xf32", np.arange(6, dtype="float32").tobytes())}
    both = Module(file, "t", "main", expected=("-2", file))
    assert module_data.expected(both, ["i8", "2x3xf32"])[0] == ("i8", np.int32(-2).tobytes())
    for other in ("2x3xf64", "3x2xf32", "6xf32", "?x2xf32", "2x3xi32"):
        told = rf"holds float32 of shape \(2, 3\); the function gives {re.escape(other)}"
        with pytest.raises(ToolError, match=told):
            module_data.expected(program, [other])
    with pytest.raises(ToolError, match="holds float32 of shape \\(2, 3\\); the number i32 needs one element"):
        module_data.expected(program, ["i32"])
    with pytest.raises(
        ToolError, match="expected result 0 is a bare number, -2; the function gives 4xf32: name a file"
    ):
        module_data.expected(both, ["4xf32", "4xf32"])
    with pytest.raises(ToolError, match=r"expected results given: 1; main gives 2: 4xf32, 4xf32$"):
        module_data.expected(program, ["4xf32", "4xf32"])
    with pytest.raises(
        ToolError, match=r"expected results given: 2; main gives 3: .* \(1 bare number may be left out\)$"
    ):
        module_data.expected(both, ["4xf32", "4xf32", "f32"])
    (tmp_path / "a.npy").write_bytes(b"changed")
    with pytest.raises(OSError, match="has changed since"):
        module_data.expected(program, ["2x3xf32"])


def test_a_bare_number_is_the_low_bits_of_its_declared_type():
    for value, declared, found in [
        (254, "i8", -2), (257, "i1", 1), (-2, "i1", 0), (-7, "i32", -7), (65535, "i16", -1), (5, "index", 5),
    ]:  # fmt: skip
        assert module_data.number(np.int32(value).tobytes(), declared) == found
    assert module_data.number(np.int64(-(2**63)).tobytes(), "i64") == -(2**63)
    assert module_data.number(np.float32(1.5).tobytes(), "f64") == 1.5  # the compiler demoted f64 to f32
    assert module_data.number(np.int32(1).tobytes(), "f16") is None


def verdict(got, expected, dtype="float32"):
    arrays = (np.array(values, dtype).tobytes() for values in (got, expected))
    name = {"float32": "f32", "float64": "f64", "float16": "f16", "int32": "i32"}[dtype]
    return verify_module.compared(*arrays, f"{len(got)}x{name}", None)


@pytest.mark.filterwarnings("error")
def test_infinite_or_huge_expected_numbers_do_not_make_the_tolerance_infinite():
    inf = float("inf")
    assert verdict([inf, -inf, 1, 2], [inf, -inf, 1, 2]).word == "within bound"
    assert verdict([1, 2, 3, 4], [inf, inf, inf, inf]).wrong == 4
    assert verdict([inf, 1, 1, 1], [-inf, 1, 1, 1]).wrong == 1
    assert verdict([inf, 1, 1, 1], [65504, 1, 1, 1], "float16").wrong == 1  # 65504 is the largest f16
    assert verdict([1, 2, 3, 4], [1e200, 2e200, 3e200, 4e200], "float64").wrong == 4
    assert verdict([1e200, 2e200], [1e200, 2e200 * (1 + 1e-12)], "float64").word == "within bound"
