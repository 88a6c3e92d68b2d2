from typing import Any

import numpy as np
import pytest
from support.lines import unscaled

from dispatchflow.operations import OPERATIONS, Operation
from dispatchflow.operations.matmul import Matmul
from dispatchflow.operations.norm import EPSILON
from dispatchflow.verification.inputs import dtype_of, exact, random
from dispatchflow.verification.reference import bounds, expected, widened
from dispatchflow.verification.verdict import compare_bits, compare_bounded

SIGNATURES = pytest.mark.parametrize("types", Matmul.signatures.values(), ids=list(Matmul.signatures))
LAYOUTS = pytest.mark.parametrize("layout", Matmul.layouts)


def matmul(m: int, n: int, k: int, types="f32", layout: str = "tt") -> Matmul:
    signature = Matmul.signatures[types] if isinstance(types, str) else types
    return Matmul((m, n, k), signature, layout, Matmul.make((m, n, k)).chosen)


def by_loops(op: Matmul, lhs, rhs) -> list[list[int]]:
    a = (lambda i, p: lhs[i, p]) if op.layout[0] == "t" else (lambda i, p: lhs[p, i])
    b = (lambda p, j: rhs[p, j]) if op.layout[1] == "t" else (lambda p, j: rhs[j, p])
    m, n, k = op.sizes
    return [[sum(int(a(i, p)) * int(b(p, j)) for p in range(k)) for j in range(n)] for i in range(m)]


@LAYOUTS
@pytest.mark.parametrize("shape", [(3, 4, 5), (4, 4, 4), (1, 1, 1), (1, 7, 2)])
def test_reference_of_a_matmul_is_its_definition(layout, shape):
    op = matmul(*shape, layout=layout)
    lhs, rhs = unscaled(op, exact(op))
    assert op.reference([lhs.astype(np.float64), rhs.astype(np.float64)]).tolist() == by_loops(op, lhs, rhs)


@SIGNATURES
@LAYOUTS
def test_expected_result_has_the_declared_type_and_the_integers_of_the_definition(types, layout):
    op = matmul(5, 6, 70, types, layout)
    drawn = np.random.default_rng(0)
    operands = [
        drawn.integers(-3 * (not operand.type.element.is_unsigned), 4, operand.type.shape).astype(
            dtype_of(operand.type.element)
        )
        for operand in op.operands()
    ]
    found = expected(op, operands)
    assert (found.shape, found.dtype) == (op.result().shape, dtype_of(types.result))
    assert found.astype(np.float64).tolist() == by_loops(op, *operands)


def test_integer_results_wrap_as_two_s_complement_does():
    op = matmul(1, 1, 2**17, "i8")
    operands = [np.full(shape, -128, np.int8) for shape in ((1, 2**17), (2**17, 1))]
    assert expected(op, operands).tolist() == [[-(2**31)]]
    operands[0][0, 0] = 127
    assert expected(op, operands).tolist() == [[2**31 - 128 * 255]]


def test_float_results_are_rounded_once():
    # The sum is 1 + 2**-11 + 2**-24. Rounded to f32 first, the sum would be a tie in f16 and become 1.
    op = matmul(1, 1, 3, "f16")
    lhs = np.array([[1, 2**-11, 2**-12]], np.float16)
    rhs = np.array([[1], [1], [2**-12]], np.float16)
    assert expected(op, [lhs, rhs]).tolist() == [[1 + 2**-10]]


def accumulated(op: Matmul, operands):
    """Compute a matmul term by term in the accumulator's type, and then round to the result's type."""
    dtype, (m, n, _) = dtype_of(op.signature.accumulator), op.sizes
    lhs, rhs = (operand.astype(np.float64) for operand in operands)
    total = np.zeros((m, n), dtype)
    for p in range(op.terms):
        product = np.outer(lhs[:, p], rhs[p]).astype(dtype)
        total = (total.astype(np.float64) + product.astype(np.float64)).astype(dtype)
    return total.astype(dtype_of(op.signature.result))


@pytest.mark.parametrize("types", [name for name, types in Matmul.signatures.items() if types.result.is_float])
@pytest.mark.parametrize("k", [1, 2, 64, 1000])
def test_correctly_rounded_arithmetic_is_well_within_the_bound(types, k):
    op = matmul(16, 16, k, types)
    operands = random(op)
    verdict = compare_bounded(accumulated(op, operands), *bounds(op, operands))
    assert verdict.word == "within bound"
    narrowed = op.signature.accumulator is not op.signature.result  # then the last rounding alone may use up the bound
    assert verdict.score <= (1 if narrowed or k <= 2 else 0.5)


@pytest.mark.parametrize("types", ["f32", "f16_f32", "f64", "bf16"])
def test_the_error_bound_is_tight_enough_to_detect_a_dropped_term(types):
    op = matmul(16, 16, 64, types)
    lhs, rhs = random(op)
    without = accumulated(matmul(16, 16, 63, types), [lhs[:, 1:], rhs[1:]])
    verdict = compare_bounded(without, *bounds(op, [lhs, rhs]))
    assert verdict.word == "different"
    assert verdict.wrong > 0.9 * 256


def test_bound_of_one_term_is_the_definition_s():
    op = matmul(1, 1, 1)
    value, tolerance = bounds(op, [np.array([[0.5]], np.float32), np.array([[-0.25]], np.float32)])
    assert value.tolist() == [[-0.125]]
    assert tolerance.tolist() == [[2.0**-24 * 0.125 + 2.0**-24 * (0.125 + 2.0**-126)]]


@pytest.mark.parametrize(("k", "growth"), [(1, 1), (8, 8), (16, 16), (100, 16), (10_000, 16)])
def test_bound_grows_with_the_terms_up_to_sixteen(k, growth):
    op = matmul(1, 1, k)
    ones = [np.ones((1, k), np.float32), -np.ones((k, 1), np.float32)]
    _, tolerance = bounds(op, ones)
    assert tolerance.item() == pytest.approx(2.0**-24 * (growth * k + k), rel=1e-6)


def positive(name: str, count: int) -> tuple[Operation, list[Any], Any]:
    """Return (operation, operands, result), where the result depends on sums of `count` positive terms.

    The terms are added one by one in f32, which causes larger rounding errors than sums of pairs or blocks."""
    f32 = np.float32
    match name:
        case "softmax":
            op = OPERATIONS[name].make((1, count))
            x = random(op)[0] / 4  # close to each other, so that many terms count
            powers = np.exp(x - x.max())
            return op, [x], powers / np.cumsum(powers, dtype=f32).reshape(1, -1)[:, -1]
        case "norm":
            op = OPERATIONS[name].make((1, count), kind="rms")
            x, ones = np.full((1, count), 0.1**0.5, f32), np.ones(count, f32)
            squares = np.cumsum(x * x, dtype=f32)[-1]
            return op, [x, ones], x / np.sqrt(squares / f32(count) + f32(EPSILON)) * ones
        case "attention":
            op = OPERATIONS[name].make((1, 1, 1, 1, count))
            keys = np.full((1, count, 1), -1.0, f32)
            keys[0, 0] = 1.25  # each other key weighs about a tenth of this one
            ones = np.ones((1, count, 1), f32)
            weights = np.exp(keys.ravel() - keys.max())
            return (
                op,
                [ones[:, :1], keys, ones],
                (weights.sum(dtype=np.float64) / np.cumsum(weights)[-1]).reshape(1, 1, 1),
            )
    raise AssertionError(name)


@pytest.mark.parametrize("name", ["softmax", "norm", "attention"])
def test_sums_of_positive_terms_one_by_one_are_within_the_bound(name):
    op, operands, got = positive(name, 2**20)
    off = abs(got - op.reference(widened(operands))) / abs(got)
    assert off.max() > 8 * 2.0**10 * 2.0**-24  # a bound of √count unit roundoffs would be too small
    assert compare_bounded(got, *bounds(op, operands)).word == "within bound"


@pytest.mark.parametrize(
    ("name", "types", "terms", "off"),
    [("softmax", "f16", 512, 2.0), ("softmax", "f32", 2**20, 1.2), ("norm", "f16_f32_f16", 2**20, 1.1)],
)
def test_the_error_bound_of_positive_sums_detects_a_wrong_sum(name, types, terms, off):
    op = OPERATIONS[name].make((1, terms), types)
    operands = random(op)
    right = op.reference(widened(operands))
    wrong = (right * off).astype(dtype_of(op.types.result))
    assert compare_bounded(wrong, *bounds(op, operands)).word == "different"
    assert compare_bounded(0 * wrong, *bounds(op, operands)).word == "different"


@pytest.mark.parametrize(
    ("name", "types", "most"),
    [("softmax", "f16", 512), ("softmax", "f16_f32_f16", 2**22), ("norm", "f32", 2**22), ("attention", "f16", 2**22)],
)
def test_sum_of_more_positive_terms_than_can_be_judged_is_a_skip(name, types, most):
    sizes = (1,) * (len(OPERATIONS[name].dims) - 1)
    assert OPERATIONS[name].make((*sizes, most), types).illegal("llvm-cpu") is None
    why = OPERATIONS[name].make((*sizes, most + 1), types).illegal("llvm-cpu")
    element = "f16" if types == "f16" and name == "softmax" else "f32"
    assert why is not None
    assert why.startswith(f"rounding may change a sum of {most + 1} positive terms in {element} by more than a quarter")
    assert ("f16_f32_f16 adds in f32" in why) == (element == "f16")


def test_bound_covers_results_that_underflow():
    op = matmul(1, 1, 1, "f16")
    tiny = [np.array([[2.0**-14]], np.float16)] * 2
    got = np.zeros((1, 1), np.float16)
    assert compare_bounded(got, *bounds(op, tiny)).passed


@SIGNATURES
def test_exact_inputs_detect_every_dropped_term(types):
    op = matmul(64, 64, 64, types)
    lhs, rhs = exact(op)
    right = expected(op, [lhs, rhs])
    for p in range(op.terms):
        without = lhs.copy()
        without[:, p] = 0
        assert compare_bits(expected(op, [without, rhs]), right).word == "different"


@SIGNATURES
@LAYOUTS
def test_exact_inputs_detect_wrong_layouts_and_swapped_operands(types, layout):
    op = matmul(32, 32, 32, types, layout)
    lhs, rhs = exact(op)
    right = expected(op, [lhs, rhs])
    for wrong in ([lhs.T, rhs], [lhs, rhs.T], [lhs.T, rhs.T], [rhs, lhs], [lhs, lhs]):
        verdict = compare_bits(expected(op, wrong), right)
        assert verdict.word == "different"
        assert verdict.wrong > 0.5 * 32 * 32
    assert compare_bits(right.T, right).word == "different"
