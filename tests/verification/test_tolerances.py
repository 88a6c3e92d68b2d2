"""Wrong results of modules are reported, but results that are summed in another order are not.

The sizes are as large as in real models."""

import ml_dtypes
import numpy as np
import pytest
from support.project import Project, sweep

from dispatchflow.cases.module import ELEMENT_TYPES
from dispatchflow.engine import verify_module
from dispatchflow.verification import module_data

pytest_plugins = ["support.project"]
N = 4096
TYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
LEAST = np.finfo(np.float32).min


def judged(got, expected, type="f32", rtol=None):
    shape = "x".join(map(str, expected.shape))
    as_bytes = [np.ascontiguousarray(array.astype(TYPES[type])).tobytes() for array in (got, expected)]
    return verify_module.compared(*as_bytes, f"{shape}x{type}", rtol)


def random(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def masked(shape):
    found = random(shape)
    found[:, :: shape[1] // 64] = LEAST
    return found


SCALES = np.logspace(-4, 4, 64)
RESULTS = {
    "alike": random((64, N)),
    "flat": random(N),
    "one-huge": np.where(np.arange(64 * N).reshape(64, N) == 99, 1e7, random((64, N))),
    "masked": masked((64, N)),
    "causal": np.where(np.tri(N, dtype=bool)[63::64], random((64, N)), LEAST),
    "softmax": softmax(3 * random((64, N))),
    "relu": np.maximum(random((64, N)), 0),
}
SCALED = {
    "rows": (random((64, N)), SCALES[:, None]),
    "columns": (random((N, 64)), SCALES),
    "both": (random((64, 64)), SCALES[:, None] * SCALES),
    "batches": (random((4, 32, 256)), np.array([1e-3, 1, 1e3, 1e6])[:, None, None]),
    "channels": (random((N, 64)), np.where(np.arange(64) % 32 == 0, 1e3, 1)),
    "channels of 7 by 7": (random((1, 512, 7, 7)), np.where(np.arange(512) % 5 < 3, 1.0, 1e-6)[:, None, None]),
    "4 channels last": (random((N, 4)), np.array([1, 1e-6, 1e-6, 1])),
    "channels of 2 by 2 by 5": (random((2, 64, 2, 2, 5)), np.logspace(-4, 4, 64)[:, None, None, None]),
}
RESULTS |= {name: values * scale for name, (values, scale) in SCALED.items()}


def usual_places(name, expected):
    """Return the indices of 100 random elements of `expected` that are not small.

    An element's magnitude is at least the median magnitude of its row. For a name in `SCALED`, all elements are first
    divided by their scales, and the median is that of all elements."""
    _, scale = SCALED.get(name, (expected, 1.0))
    # Zeros and the lowest value, which masked elements have, are left out.
    counted = np.where((expected == 0) | (expected == expected.min()), np.nan, abs(expected / scale))
    # The median is that of the element's row, or of all elements if they are divided by their scales.
    axis = None if name in SCALED else -1
    places = np.argwhere(counted >= np.nanmedian(counted, axis=axis, keepdims=True))
    chosen = places[np.random.default_rng(1).choice(len(places), 100, replace=False)]
    return tuple(chosen.T)


@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.parametrize("type", TYPES)
def test_an_error_of_20_rtol_of_a_usual_element_is_never_right(name, type):
    if name not in ("alike", "flat", "relu") and type == "f16":
        pytest.skip("f16 holds no such sizes")
    least = float(ml_dtypes.finfo(TYPES[type]).min)
    expected = np.where(RESULTS[name] == LEAST, least, RESULTS[name]).astype(TYPES[type]).astype(np.float64)
    got = expected.copy()
    got[usual_places(name, expected)] *= 1 + 20 * module_data.tolerance(ELEMENT_TYPES[type], None)
    assert judged(expected, expected, type).word == "within bound"
    assert judged(got, expected, type).wrong == 100


def test_channels_of_short_lines_that_are_lost_are_never_right():
    # Two of five channels have a gain of 0.002, and are 0 in the wrong result.
    values, gains = random((1, 512, 7, 7)), np.where(np.arange(512) % 5 < 3, 1.0, 0.002)[:, None, None]
    lost = np.where(gains == 1, values, 0)
    assert judged(values * gains, values * gains, "f16").word == "within bound"
    assert not judged(lost, values * gains, "f16").passed


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_100_times_too_large_is_different_beside_masked_or_scaled_elements(name):
    expected = RESULTS[name].astype(np.float32)
    assert judged(np.where(expected == LEAST, expected, expected * 100), expected).word == "different"


def by_blocks(a, b, size):
    """Compute a matmul in f32: sum blocks of `size` terms, and add these sums one after another."""
    blocks = range(0, a.shape[1], size)
    return sum((a[:, i : i + size] @ b[i : i + size] for i in blocks), np.zeros((len(a), b.shape[1]), np.float32))


def one_by_one(a):
    found = np.zeros(len(a), np.float32)
    for column in a.T:
        found += column
    return found


def normed(x):
    middle = x.mean(-1, keepdims=True, dtype=x.dtype)
    return (x - middle) / np.sqrt(((x - middle) ** 2).mean(-1, keepdims=True, dtype=x.dtype) + x.dtype.type(1e-5))


A, B = random((64, N)).astype(np.float32), random((N, 64), seed=1).astype(np.float32)
LONG = random((16, 65_536)).astype(np.float32)
SCALE = SCALES.astype(np.float32)
RIGHT = {
    "product": (by_blocks(A, B, 1), A, B),
    "rows": (by_blocks(A * SCALE[:, None], B, 64), A * SCALE[:, None], B),
    "columns": (by_blocks(A, B * SCALE, 64), A, B * SCALE),
    "both": (by_blocks(A * SCALE[:, None], B * SCALE, 64), A * SCALE[:, None], B * SCALE),
    "one channel of 1e6": (
        by_blocks(A, B * np.where(np.arange(64) == 7, 1e6, 1), 64),
        A,
        B * np.where(np.arange(64) == 7, 1e6, 1),
    ),
    "attention": (by_blocks(softmax(A), B, 64), softmax(A.astype(np.float64)), B),
}
EXACT = {name: (got, a.astype(np.float64) @ b) for name, (got, a, b) in RIGHT.items()} | {
    "sums": (one_by_one(LONG), LONG.astype(np.float64).sum(1)),
    "sums so far": (np.cumsum(LONG, axis=1), np.cumsum(LONG.astype(np.float64), axis=1)),
    "softmax": (softmax(A * np.float32(20)), softmax(A.astype(np.float64) * 20)),
    "long softmax": (softmax(LONG), softmax(LONG.astype(np.float64))),
    "norm": (normed(A + np.float32(10)), normed(A.astype(np.float64) + 10)),
    "relu": (np.maximum(by_blocks(A, B, 64), 0), np.maximum(A.astype(np.float64) @ B, 0)),
    "masked scores": tuple(
        np.where(np.tri(64, dtype=bool), x, LEAST) for x in (by_blocks(A, B, 64), A.astype(np.float64) @ B)
    ),
}


@pytest.mark.parametrize("name", EXACT)
def test_a_right_result_of_another_summation_order_is_within_bound(name):
    got, exact = EXACT[name]
    found = judged(got, exact)
    assert found.word == "within bound" and found.score < 0.5, found


def test_a_result_whose_small_errors_a_large_element_may_explain_is_mistrusted():
    # A rotation times its transpose has noise of 1e-8 where zeros are expected.
    rotation = np.linalg.qr(random((256, 256)))[0]
    single = rotation.astype(np.float32)
    expected = rotation.T @ rotation
    assert judged(single.T @ single, expected).word == "mistrusted"
    assert judged(single.T @ single + np.float32(1e-3), expected).word == "different"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_result_without_a_number_is_mistrusted(value):
    nothing = np.full((4, N), value)
    assert judged(nothing, nothing).word == "mistrusted"
    some = np.where(np.arange(N) == 7, 1.0, nothing)
    assert judged(some, some).word == "within bound"
    assert judged(np.zeros((4, N)), some).word == "different"
    assert judged(np.zeros((4, 0)), np.zeros((4, 0))).passed


MASKED = """\
func.func @main(%x: tensor<64x4096xf32>) -> tensor<64x4096xf32> {{
  %big = arith.constant dense<-1.0e38> : tensor<64x4096xf32>
  %factor = arith.constant dense<{factor}> : tensor<64x4096xf32>
  %masked = arith.cmpf olt, %x, %big : tensor<64x4096xf32>
  %y = arith.mulf %x, %factor : tensor<64x4096xf32>
  %z = arith.select %masked, %x, %y : tensor<64x4096xi1>, tensor<64x4096xf32>
  return %z : tensor<64x4096xf32>
}}
"""
NAN = """\
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %nan = arith.constant dense<0x7FC00000> : tensor<4x8xf32>
  %0 = arith.addf %x, %nan : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
"""
MODULE = {"operation": "module", "m": None, "n": None, "k": None}
SPEC = (
    sweep(**MODULE, file=["wrong.mlir", "off.mlir"], inputs="@x.npy", expected="x.npy")
    + sweep(**MODULE, file="nan.mlir", reference="vmvx")
    + sweep(
        **MODULE,
        file="nan.mlir",
        name="same",
        inputs="4x8xf32=integers",
        reference="llvm-cpu",
    )
)


@pytest.mark.iree
def test_errors_beside_a_mask_are_found_and_a_module_cannot_be_its_own_reference(tmp_path):
    project = Project.make(tmp_path, SPEC)
    for name, text in {
        "wrong": MASKED.format(factor=100.0), "off": MASKED.format(factor=1.001), "nan": NAN,
    }.items():  # fmt: skip
        (tmp_path / f"specs/{name}.mlir").write_text(text)
    np.save(tmp_path / "specs/x.npy", RESULTS["masked"].astype(np.float32))

    outcome = project.doit("protocol=fast")

    rows = {row["case"].removeprefix("module_").split("@")[0]: row for row in project.rows()}
    assert outcome.code == 1
    assert {name: row["verification"] for name, row in rows.items() if "nan" not in name and "same" not in name} == {
        "wrong_main_default": "different", "off_main_default": "different",
    }  # fmt: skip
    assert rows["nan_main_default"]["verification"] == "mistrusted"
    assert rows["nan_main_default"]["reason"].startswith("no element of result 0 is a finite number")
    same = rows["same_main_default"]
    assert same["verification"] == "not compared" and same["reason"].startswith("the reference is the same code")
    assert "not compared: the reference is the same code: module_same_main_default@llvm-cpu-1t" in outcome.out
    assert "mistrusted: module_nan_main_default@llvm-cpu-1t: no element of result 0" in outcome.out
