import numpy as np
import pytest
from support.lines import unscaled
from xxhash import xxh3_128_hexdigest

from dispatchflow.mlir.types import ElementType
from dispatchflow.operations import OPERATIONS
from dispatchflow.operations._exact import thinnings
from dispatchflow.operations.matmul import Matmul
from dispatchflow.operations.pooling import Pooling
from dispatchflow.verification import inputs
from dispatchflow.verification.inputs import dtype_of, exact, exact_range, made, random
from dispatchflow.verification.reference import widened

SIGNATURES = pytest.mark.parametrize("types", Matmul.signatures.values(), ids=list(Matmul.signatures))
TERMS = pytest.mark.parametrize("k", [1, 31, 33, 63, 64, 65, 227, 228, 8192])


def logical(op: Matmul, operands) -> tuple[np.ndarray, np.ndarray]:
    """Return the operands of a matmul as A[m,k] and B[k,n] in int64, whatever their layouts are.

    If rows and columns were multiplied by powers of two, these factors are divided out."""
    lhs, rhs = (values.astype(np.int64) for values in unscaled(op, operands))
    return (lhs if op.layout[0] == "t" else lhs.T), (rhs if op.layout[1] == "t" else rhs.T)


def matmul(m: int, n: int, k: int, types="f32", layout: str = "tt") -> Matmul:
    return Matmul(
        (m, n, k), Matmul.signatures[types] if isinstance(types, str) else types, layout, Matmul.make((m, n, k)).chosen
    )


@SIGNATURES
@TERMS
@pytest.mark.parametrize("layout", ["tt", "nn"])
def test_exact_inputs_are_exact_whatever_the_order_of_summation(types, k, layout):
    op = matmul(9, 7, k, types, layout)
    operands = exact(op)
    lhs, rhs = logical(op, operands)
    assert all((values % 1 == 0).all() for values in unscaled(op, operands))
    if not types.accumulator.is_float:
        return  # integer sums wrap, and are the same in any order
    assert (abs(lhs) @ abs(rhs)).max() <= 2**types.accumulator.digits
    result = lhs @ rhs
    # A result in a narrower type is rounded once, but most sums are small enough to be exact.
    assert (result.astype(dtype_of(types.result)).astype(np.float64) == result).mean() > 0.6
    assert (result.astype(dtype_of(types.accumulator)).astype(np.float64) == result).all()


@SIGNATURES
@TERMS
def test_every_result_of_exact_inputs_has_as_many_terms_as_are_safe(types, k):
    op = matmul(9, 7, k, types)
    r, safe, _ = exact_range(op)
    lhs, rhs = logical(op, exact(op))
    assert set((lhs != 0).sum(axis=1)) == {min(k, safe)}
    if types.accumulator.is_float:
        assert abs(lhs).max() <= r
        assert abs(rhs).max() <= r
    assert min(k, safe) >= min(k, 64)


@SIGNATURES
def test_every_term_counts_in_some_result(types):
    lhs, rhs = logical(op := matmul(128, 64, 512, types), exact(op))
    assert (lhs != 0).any(axis=0).all()
    assert (rhs != 0).any(axis=1).all()


def test_offsets_of_the_mask_differ_from_row_to_row():
    lhs, _ = logical(op := matmul(64, 8, 1027, "bf16_bf16"), exact(op))
    assert len({tuple(row) for row in lhs != 0}) > 50


@SIGNATURES
@pytest.mark.parametrize("recipe", [exact, random])
def test_operands_have_their_declared_types_and_differ(types, recipe):
    op = matmul(32, 32, 32, types)
    lhs, rhs = recipe(op)
    for array, operand in zip((lhs, rhs), op.operands(), strict=True):
        assert (array.shape, array.dtype) == (operand.type.shape, dtype_of(operand.type.element))
        assert len(inputs.stored(array)) == operand.type.nbytes
    assert (lhs != rhs).mean() > 0.5
    assert (lhs != rhs.T).mean() > 0.5
    assert (lhs != exact(op)[0]).any() or recipe is exact


@SIGNATURES
def test_random_inputs_fill_their_range(types):
    for array, element in zip(random(matmul(128, 128, 128, types)), types.operands, strict=True):
        wide = array.astype(np.float64)
        high = 1.0 if element.is_float else 2.0**element.digits - 1
        low = -1.0 if element.is_float else 0.0 if element.is_unsigned else -(2.0**element.digits)
        assert low <= wide.min() <= low + 0.001 * (high - low)
        assert high - 0.005 * (high - low) < wide.max() <= high
        assert abs(wide.mean() - (low + high) / 2) < 0.01 * (high - low)
        assert (wide != 0).mean() > 0.99 or element.bits == 4


@pytest.mark.parametrize("name", ["int4", "float4_e2m1fn"])
def test_two_elements_of_four_bits_are_in_a_byte_the_first_one_low(name):
    array = np.array([1, 2, -3, 4, -1]).astype(dtype_of(next(e for e in ElementType if e.numpy_name == name)))
    low, high = array.view(np.uint8)[:4:2] & 15, array.view(np.uint8)[1::2] & 15
    assert inputs.stored(array) == bytes([*(low | (high << 4)).tolist(), int(array.view(np.uint8)[4]) & 15])


@pytest.mark.parametrize("element", ElementType)
@pytest.mark.parametrize("count", [1, 4, 5])
def test_elements_that_are_stored_are_read(element, count, tmp_path):
    array = np.array([1, 2, 1, 2, 1])[:count].astype(dtype_of(element))
    (tmp_path / "a.bin").write_bytes(inputs.stored(array))
    found = inputs.read(tmp_path / "a.bin", array.dtype)
    assert found.dtype == array.dtype
    assert (found[:count] == array).all()
    assert not found[count:].any()


def test_integers_of_four_bits_have_their_sign_when_they_are_read(tmp_path):
    array = np.arange(-8, 8).astype(dtype_of(ElementType.I4))
    (tmp_path / "a.bin").write_bytes(inputs.stored(array))
    assert inputs.read(tmp_path / "a.bin", array.dtype).astype(int).tolist() == [*range(-8, 8)]


def test_random_inputs_that_are_not_rounded_stay_below_one():
    assert max(array.max() for array in random(matmul(256, 256, 256, "f64"))) < 1


def test_no_recipe_makes_only_zeros_for_a_pooling_of_integers():
    pooling = Pooling.make((1, 8, 8, 4, 6, 6), "i32", kind="sum")  # 36 terms, and no factors to choose
    assert all(made(pooling, recipe)[0].any() for recipe in pooling.recipes)


def test_random_integers_of_32_bits_fill_their_range():
    found = inputs._random_operand(inputs.Operand(matmul(256, 256, 1, "i8").result()), 0)
    assert found.dtype == np.int32
    assert found.min() < -(2**31) * 0.999
    assert found.max() > 2**31 * 0.999


def test_smaller_operand_is_the_beginning_of_the_larger_one():
    # Each operand has one stream of random numbers; its shape decides only how much of it is used.
    small, large = (random(matmul(m, 8, 16))[0] for m in (4, 8))
    assert (large[:4] == small).all()


@pytest.mark.parametrize(
    ("recipe", "dtype", "digests"),
    [
        (exact, "f32", ["01c5e1251e4cd088236ed8ed5e03abd0", "4778fbe4ef526106b4319ab16858a0e7"]),
        (exact, "bf16_f32_bf16", ["6a9f1f681d31f7bc54c325f29f793cb5", "f9ea528c4f83da8a8457fba6f861b003"]),
        (exact, "i8", ["55884cfdd43f117f5982d3008893428e", "346c9ff72112d48ba9312d24b545d170"]),
        (random, "f64", ["7d90d662573b81d69c6acfa27e929a10", "6a6e923e115b704e68e3df015f75723f"]),
        (random, "f16", ["80b8f3230e61ee3c9ef22d5b29200e03", "746035c07d4691194b52638fb42e86dd"]),
        (random, "bf16", ["3b8431aeaf60b1bbd8c709b2fa820c2a", "61ea1a928fa1861cd4cb11fd496eb552"]),
        (random, "i8", ["a38b6394cb00847ae36a18d278736776", "ee75a51f1f5f1f0a59ec672742348c8a"]),
    ],
)
def test_bytes_of_inputs_stay_what_they_were(recipe, dtype, digests):
    # Change these bytes only on purpose: every case is then verified and measured again.
    operands = recipe(matmul(33, 17, 129, dtype, "nt"))
    assert [xxh3_128_hexdigest(operand.tobytes()) for operand in operands] == digests


@pytest.mark.parametrize("terms", [1, 2, 3, 4, 6, 30, 64, 97, 1000])
@pytest.mark.parametrize("safe", [1, 2, 14, 64, 5000])
def test_mask_keeps_the_same_number_in_every_line(terms, safe):
    for shape, axis in (((6, terms), 1), ((terms, 6), 0)):
        mask = inputs._mask(shape, (axis,), safe)
        assert mask.shape == shape
        assert set(mask.sum(axis=axis)) == {min(terms, safe)}


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("matmul", (2, 3, 512)),
        ("conv2d", (1, 3, 3, 8, 1, 3, 3)),  # the image is as large as the weights
        ("conv2d", (1, 3, 3, 8, 4, 3, 3)),
        ("depthwise_conv2d", (1, 3, 3, 8, 3, 3)),
    ],
)
def test_balanced_sums_are_3_or_4_times_a_power_of_two(name, sizes):
    op = OPERATIONS[name].make(sizes, "bf16_f32_bf16", None)
    assert thinnings(op)[1].balanced
    result = op.reference(widened(made(op, "exact2")))
    assert set(np.frexp(np.abs(result))[0].ravel()) <= {3 / 4, 4 / 8}


@pytest.mark.parametrize("types", ["i8", "i4", "ui8_i8"])
def test_integers_that_are_narrowed_keep_all_terms_of_exact_inputs(types):
    op = Matmul.make((8, 8, 4096), types, epilogue="cast")
    assert op.types.result.bits <= 8
    lhs, rhs = exact(op)
    assert (lhs != 0).all()
    assert (rhs != 0).any()
