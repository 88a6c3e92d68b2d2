import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatchflow.verification.verdict import Verdict, Worst, compare_bits, compare_bounded
from dispatchflow.verification.verdict_words import PASSED, VERIFICATIONS

NAN, INF = float("nan"), float("inf")
PLACES = st.tuples(st.integers(0, 3), st.integers(0, 4))


def values(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-4, 4, (4, 5))


@given(st.integers(0, 99), PLACES, st.floats(1.01, 1e30), st.sampled_from([-1, 1]))
def test_one_element_beyond_its_tolerance_is_reported_with_place_count_and_score(seed, place, excess, sign):
    reference = values(seed)
    tolerance = abs(values(seed + 1)) * 1e-3 + 1e-6
    got = reference + tolerance * 0.5
    got[place] = reference[place] + sign * excess * tolerance[place]
    verdict = compare_bounded(got, reference, tolerance)
    assert verdict.word == "different"
    assert not verdict.passed
    assert verdict.worst == Worst(place, str(got[place]), str(reference[place]))
    assert verdict.wrong == 1
    assert verdict.score == pytest.approx(excess, rel=1e-6)


@given(st.integers(0, 99), st.floats(0, 0.99))
def test_elements_within_their_tolerances_pass_with_the_largest_part_as_score(seed, part):
    reference, tolerance = values(seed), np.full((4, 5), 1e-3)
    verdict = compare_bounded(reference + part * tolerance, reference, tolerance)
    assert verdict.word == "within bound"
    assert verdict.passed
    assert verdict.wrong == 0
    assert verdict.score == pytest.approx(part, abs=1e-9)


@pytest.mark.filterwarnings("error")
def test_comparing_nan_and_infinity_emits_no_numpy_warning():
    signalling = np.array([0x7D00, 0x7C00, 0x7C00], np.uint16).view(np.float16)  # NaN, ∞, ∞
    expected = np.array([1, INF, -INF], np.float16)
    assert compare_bits(signalling, expected).wrong == 2
    assert compare_bounded(signalling, expected.astype(np.float64), np.full(3, 0.1)).wrong == 2


@given(st.integers(0, 99), PLACES, st.sampled_from([NAN, INF, -INF]), st.floats(0, 1e300) | st.just(INF))
def test_a_nonfinite_result_where_a_number_is_expected_never_passes(seed, place, strange, tolerance):
    got = values(seed)
    got[place] = strange
    for verdict in (
        compare_bounded(got, values(seed), np.full((4, 5), tolerance)),
        compare_bits(got, values(seed)),
        compare_bits(got.astype(np.float16), values(seed).astype(np.float16)),
    ):
        assert not verdict.passed
        assert verdict.wrong == 1
        assert verdict.worst.index == place
        assert verdict.worst.got == str(strange)
        assert verdict.score is None or verdict.score > 1e5


@given(PLACES, st.sampled_from([NAN, INF, -INF]), st.sampled_from([0.0, NAN, INF, -INF]))
def test_nan_and_infinity_agree_with_themselves_alone(place, got_value, expected_value):
    # No tolerance makes NaN or ∞ equal to another value.
    got, expected = np.ones((4, 5)), np.ones((4, 5))
    got[place], expected[place] = got_value, expected_value
    alike = str(got_value) == str(expected_value)
    assert compare_bits(got, expected).passed == alike
    for one, other in ((got, expected), (expected, got)):
        for tolerance in (1e9, INF):
            assert compare_bounded(one, other, np.full((4, 5), tolerance)).passed == alike


def test_a_nan_tolerance_accepts_no_difference():
    assert not compare_bounded(np.ones(2), np.full(2, 1.5), np.full(2, NAN)).passed


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
def test_zero_has_no_sign(dtype):
    got, expected = np.array([0.0, -0.0], dtype), np.array([-0.0, 0.0], dtype)
    assert compare_bits(got, expected).word == "equal"
    assert compare_bounded(got, expected.astype(np.float64), np.zeros(2)).score == 0


@given(st.integers(0, 99), PLACES, st.sampled_from([np.float32, np.float16, ml_dtypes.bfloat16]), st.booleans())
def test_a_difference_of_one_unit_in_the_last_place_is_reported(seed, place, dtype, up):
    expected = values(seed).astype(dtype)
    got = expected.copy()
    bits = got.view(f"u{expected.dtype.itemsize}")
    bits[place] = bits[place] + 1 if up else bits[place] - 1
    verdict = compare_bits(got, expected)
    assert verdict.word == "different"
    assert verdict.worst == Worst(place, str(got[place]), str(expected[place]))
    assert (verdict.wrong, verdict.score) == (1, None)


@given(PLACES, st.sampled_from([np.int8, np.int32]), st.integers(-(2**31), 2**31 - 1))
def test_an_integer_that_differs_is_reported(place, dtype, value):
    expected = np.full((4, 5), 7, dtype)
    got = expected.copy()
    got[place] = np.array(value).astype(dtype)
    verdict = compare_bits(got, expected)
    assert verdict.passed == (got[place] == 7)
    assert verdict.passed or verdict.worst.index == place


def test_worst_is_the_element_furthest_off_and_all_wrong_ones_are_counted():
    expected = np.zeros((2, 3), np.int32)
    got = np.array([[0, 5, 0], [-9, 0, 1]], np.int32)
    verdict = compare_bits(got, expected)
    assert verdict.worst == Worst((1, 0), "-9", "0")
    assert verdict.wrong == 3


def test_worst_of_a_bounded_comparison_is_the_largest_part_of_its_own_tolerance():
    verdict = compare_bounded(np.array([2.0, 11.0]), np.array([1.0, 1.0]), np.array([0.1, 100.0]))
    assert verdict.worst.index == (0,)
    assert verdict.score == pytest.approx(10)


def test_a_zero_tolerance_accepts_equal_values_only():
    assert compare_bounded(np.ones(3), np.ones(3), np.zeros(3)).passed
    assert not compare_bounded(np.ones(3), np.nextafter(np.ones(3), 2), np.zeros(3)).passed


def test_empty_results_are_equal():
    empty = np.empty((0, 8))
    assert compare_bounded(empty, empty, empty) == compare_bits(empty, empty) == Verdict("equal")


def test_only_equal_and_within_bound_pass():
    assert set(PASSED) < set(VERIFICATIONS)
    assert PASSED == ("equal", "within bound")
