"""Sums inside of softmax, norm and attention, at sizes that models have: a term that is lost, doubled or weighted wrongly,
a wrong divisor, epsilon, maximum, mask or boundary is reported, and what correct kernels give is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract.test_plants import called, different, module, workspace  # noqa: F401 (a fixture)

from dispatchflow.iree.targets import TARGETS
from dispatchflow.operations import OPERATIONS, Operation
from dispatchflow.operations.norm import EPSILON
from dispatchflow.project.workspace import Workspace
from dispatchflow.verification.inputs import dtype_of, made
from dispatchflow.verification.reference import bounds, expected, widened
from dispatchflow.verification.verdict import Verdict, compare_bits, compare_bounded

SIZES = [8, 4096, 16384]
WEIGHTS = {"lost": 0.0, "doubled": 2.0, "half": 0.5}
NAMES = ("softmax", "norm", "attention", "reduction", "pooling")
SOFTMAX, NORM, ATTENTION, REDUCTION, POOLING = (OPERATIONS[name] for name in NAMES)


def positions(n: int) -> list[int]:
    """The first, the last, those at boundaries of vectors and tiles, and some at random."""
    boundaries = {0, n - 1, n // 2, 7, 8, 63, 64, n - 64}
    return sorted(p for p in boundaries | set(np.random.default_rng(n).integers(0, n, 2).tolist()) if 0 <= p < n)


def weights(n: int) -> Iterator[tuple[str, Any]]:
    """Of many terms each position with another one."""
    for i, position in enumerate(positions(n)):
        for word, factor in WEIGHTS.items() if n < 4096 else [[*WEIGHTS.items()][i % 3]]:
            weight = np.ones(n)
            weight[position] = factor
            yield f"{word} at {position}", weight


class Judge:
    """What verification says of results on the counted inputs; or on the random ones."""

    def __init__(self, operation: Operation, recipe: str = "counted") -> None:
        self.operation, self.operands = operation, widened(made(operation, recipe))
        self.bounds = bounds(operation, self.operands, recipe)

    def verdict(self, result: Any) -> Verdict:
        with np.errstate(over="ignore", invalid="ignore"):
            return compare_bounded(np.asarray(result).astype(dtype_of(self.operation.types.result)), *self.bounds)

    def missed(self, results: Iterator[tuple[str, Any]]) -> list[str]:
        return [what for what, result in results if self.verdict(result).passed]


# --- softmax


def softmax(x: Any, weight: Any = 1.0, least: float = -np.inf, dtype: Any = np.float64, total: Any = np.sum) -> Any:
    x = x.astype(dtype)
    powers = np.exp(x - np.maximum(x.max(axis=1, keepdims=True), dtype(least)))
    return powers / total(powers * dtype(weight) if np.ndim(weight) == 0 else powers * weight, axis=1, keepdims=True)


SOFTMAXES = [
    *[(word, n, 24) for word in ("f32", "f16_f32_f16") for n in SIZES],
    ("f32", 1000, 1), ("f32", 16384, 1), ("f32", 65536, 2), ("f16", 8, 8), ("f16", 512, 8),
]  # fmt: skip


@pytest.mark.parametrize(("types", "n", "m"), SOFTMAXES)
def test_every_term_of_a_softmax_counts(types: str, n: int, m: int) -> None:
    judge = Judge(SOFTMAX.make((m, n), types))
    (x,) = judge.operands
    assert judge.missed((what, softmax(x, weight)) for what, weight in weights(n)) == []
    with np.errstate(all="ignore"):
        narrow = np.exp(x.astype(np.float32))
        wrong = {
            "the maximum is not subtracted": narrow / narrow.sum(axis=1, keepdims=True),
            "a maximum that begins with 0": softmax(x, least=0.0, dtype=np.float32),
            "the maximum of all but the last": (
                (powers := np.exp((x - x[:, :-1].max(axis=1, keepdims=True)).astype(np.float32)))
                / powers.sum(axis=1, keepdims=True)
            ),
        }
    if m < 8:
        wrong.popitem()  # no row has its single largest there
    assert judge.missed(iter(wrong.items())) == []


@pytest.mark.parametrize(("types", "n", "m"), SOFTMAXES)
def test_a_right_softmax_in_its_own_types_passes(types: str, n: int, m: int) -> None:
    judge = Judge(SOFTMAX.make((m, n), types))
    dtype = np.float16 if types == "f16" else np.float32
    one_by_one = lambda a, axis, keepdims: np.cumsum(a, axis=axis, dtype=dtype)[:, -1:]  # noqa: E731
    assert judge.verdict(softmax(judge.operands[0], dtype=dtype)).passed
    assert judge.verdict(softmax(judge.operands[0], dtype=dtype, total=one_by_one)).passed
    assert judge.verdict(online(judge.operands[0].astype(np.float32))).passed


def online(x: Any, tile: int = 37) -> Any:
    """Tile by tile, with powers of two and a largest that grows."""
    x = x * np.float32(np.log2(np.e))
    largest, total = np.full((len(x), 1), -3e38, np.float32), np.zeros((len(x), 1), np.float32)
    for start in range(0, x.shape[1], tile):
        part = x[:, start : start + tile]
        new = np.maximum(largest, part.max(axis=1, keepdims=True))
        total = total * np.exp2(largest - new) + np.exp2(part - new).sum(axis=1, keepdims=True)
        largest = new
    return np.exp2(x - largest) * (np.float32(1) / total)


def test_each_row_of_narrow_results_sees_every_second_fourth_element() -> None:
    """What docs/verification.md says of which positions are seen."""
    for n, m in ((4096, 1), (4096, 5), (16384, 16), (16384, 19)):
        seen = made(SOFTMAX.make((m, n), "f16_f32_f16"), "counted")[0]
        rows = [row >= row.max() for i, row in enumerate(seen) if i % 8 != 7]
        assert {int(row.sum()) for row in rows} == {1024}
        assert np.any(rows, axis=0).sum() == min(n, len(rows) * 1024)
        assert rows[0][-1]


# --- norm


def norm(
    operation: Operation, a: Any, square: Any = 1.0, mean: Any = 1.0, less: int = 0, epsilon: float = EPSILON
) -> Any:
    layer, n = operation.option("kind") == "layer", operation.sizes[1]
    d = a[0] - (a[0] * mean).sum(axis=1, keepdims=True) / n if layer else a[0]
    root = np.sqrt((d * d * square).sum(axis=1, keepdims=True) / (n - less) + epsilon)
    return d / root * a[1] + (a[2] if layer else 0)


NORMS = [(types, kind, n) for types in NORM.signatures for kind in ("layer", "rms") for n in (*SIZES, 1001, 65536)]


@pytest.mark.parametrize(("types", "kind", "n"), NORMS)
def test_every_term_of_a_norm_its_divisor_and_its_epsilon_count(types: str, kind: str, n: int) -> None:
    judge = Judge(operation := NORM.make((1 if n > 16384 else 2, n), types, kind=kind))
    assert judge.missed((what, norm(operation, judge.operands, square=w)) for what, w in weights(n)) == []
    if kind == "layer":
        assert judge.missed((what, norm(operation, judge.operands, mean=w)) for what, w in weights(n)) == []
    wrong: dict[str, dict[str, Any]] = {
        "n - 1 for n": {"less": 1},
        "n + 1 for n": {"less": -1},
        "no epsilon": {"epsilon": 0.0},
        "epsilon twice": {"epsilon": 2 * EPSILON},
        "1e-5 for epsilon": {"epsilon": 1e-5},
        "1e-6 for epsilon": {"epsilon": 1e-6},
        **({"no mean": {"mean": 0.0}} if kind == "layer" else {}),
    }
    assert judge.missed((what, norm(operation, judge.operands, **words)) for what, words in wrong.items()) == []


@pytest.mark.parametrize(("types", "kind", "n"), [*NORMS, ("f32", "layer", 1), ("f32", "rms", 7), ("f32", "layer", 7)])
def test_a_right_norm_in_f32_passes(types: str, kind: str, n: int) -> None:
    judge = Judge(NORM.make((2, n), types, kind=kind))
    x, scale, *rest = (array.astype(np.float32) for array in judge.operands)
    shift, count = rest[0] if rest else np.float32(0), np.float32(n)
    sums: dict[str, Callable[[Any], Any]] = {
        "pairwise": lambda a: a.sum(axis=1, keepdims=True),
        "one by one": lambda a: np.cumsum(a, axis=1, dtype=np.float32)[:, -1:],
    }
    for what, total in sums.items():
        mean = total(x) / count if rest else np.float32(0)
        for off in (1, 1 + 4e-7):  # a quotient that is off by three places, as Vulkan allows
            d = x - mean * np.float32(off)
            two_passes = total(d * d) / count
            moments = total(x * x) * (np.float32(1) / count) - mean * mean
            # Squares are integers below 17² · n: one by one they are summed exactly up to n = 58,000.
            for variance in (two_passes, moments) if n < 58_000 or what == "pairwise" else (two_passes,):
                got = d * (np.float32(1) / np.sqrt(variance + np.float32(EPSILON))) * scale + shift
                assert judge.verdict(got).passed, what


# --- attention


def attention(operation: Operation, a: Any, both: Any = 1.0, summed: Any = 1.0, more: int = 0, mask: Any = None) -> Any:
    m, k2 = operation.sizes[1], operation.sizes[4]
    scores = operation._scale * (a[0] @ a[1].swapaxes(1, 2)) + (a[3] if len(a) > 3 and mask is None else mask or 0)
    if operation.option("causal") == "yes":
        scores = np.where(np.tri(m, k2, k2 - m + more, dtype=bool), scores, -np.inf)
    powers = np.exp(scores - scores.max(axis=2, keepdims=True)) * both
    with np.errstate(invalid="ignore", divide="ignore"):
        return (powers @ a[2]) / (powers * summed).sum(axis=2, keepdims=True)


ATTENTIONS = [
    (types, options, k2)
    for types in ATTENTION.signatures
    for options in ({}, {"mask": "yes", "causal": "yes"})
    for k2 in (8, 4096)
] + [("f32", {}, 16384), ("f16", {"mask": "yes", "causal": "yes"}, 16384)]


@pytest.mark.parametrize(("types", "options", "k2"), ATTENTIONS, ids=str)
def test_every_key_of_an_attention_its_mask_and_its_boundary_count(types: str, options: Any, k2: int) -> None:
    m = 8 if k2 == 8 else 18
    judge = Judge(operation := ATTENTION.make((1, m, 4, 64, k2), types, **options))
    missed = judge.missed((what, attention(operation, judge.operands, both=w)) for what, w in weights(k2))
    if k2 == 8:  # a key that only queries see which see no other
        random = Judge(operation, "random")
        missed = [
            what for what, w in weights(k2)
            if what in missed and random.verdict(attention(operation, random.operands, both=w)).passed
        ]  # fmt: skip
    assert missed == []
    if types == "f32" or k2 == 8:  # see "What it cannot see"
        results = ((what, attention(operation, judge.operands, summed=w)) for what, w in weights(k2))
        assert judge.missed(results) == []
    with np.errstate(invalid="ignore", over="ignore"):
        if options:
            q, k, v, mask = judge.operands
            wrong = {
                "a boundary that is one late": attention(operation, judge.operands, more=1),
                "a boundary that is one early": attention(operation, judge.operands, more=-1),
                "no mask": attention(operation, [q, k, v]),
                "the mask of the next key": attention(operation, [q, k, v, np.roll(mask, 1, axis=2)]),
                "the mask of the next query": attention(operation, [q, k, v, np.roll(mask, 1, axis=1)]),
            }
            assert judge.missed(iter(wrong.items())) == []
        powers = np.exp(operation._scale * (judge.operands[0] @ judge.operands[1].swapaxes(1, 2)).astype(np.float32))
        assert not judge.verdict(powers @ judge.operands[2] / powers.sum(axis=2, keepdims=True)).passed


@pytest.mark.parametrize("types", ATTENTION.signatures)
@pytest.mark.parametrize("k2", [40, 64, 1000, 4096])
def test_the_boundary_of_each_causal_query_is_seen(types: str, k2: int) -> None:
    """One query alone may be wrong: also one that sees few keys."""
    judge = Judge(operation := ATTENTION.make((1, 40, 8, 64, k2), types, causal="yes"))
    with np.errstate(invalid="ignore"):
        early, late = (attention(operation, judge.operands, more=more) for more in (-1, 1))
    right = operation.reference(judge.operands)
    for query in range(1, 39):
        for wrong in (early, late):
            got = right.copy()
            got[:, query] = wrong[:, query]
            assert not judge.verdict(got).passed, query


@pytest.mark.parametrize(("types", "options", "k2"), ATTENTIONS, ids=str)
def test_a_right_attention_passes(types: str, options: Any, k2: int) -> None:
    """As flash attention computes it: scores by log2(e), tile by tile, weights in the operands' type; and with weights
    that are divided before they are rounded and summed."""
    m = 8 if k2 == 8 else 18
    judge = Judge(operation := ATTENTION.make((1, m, 4, 64, k2), types, **options))
    q, k, v, *masks = (array.astype(np.float32) for array in judge.operands)
    own = dtype_of(operation.signature.operands[0])
    scores = q @ k.swapaxes(1, 2) * np.float32(operation._scale * np.log2(np.e))
    scores = scores + masks[0] * np.float32(np.log2(np.e)) if masks else scores
    if options:
        scores = np.where(np.tri(m, k2, k2 - m, dtype=bool), scores, np.float32(-3e38))
    largest, total, found = np.full((1, m, 1), -3e38, np.float32), np.float32(0), np.float32(0)
    for start in range(0, k2, 48):
        part = scores[:, :, start : start + 48]
        new = np.maximum(largest, part.max(axis=2, keepdims=True))
        powers, old = np.exp2(part - new), np.exp2(largest - new)
        total = total * old + powers.sum(axis=2, keepdims=True)
        found = found * old + powers.astype(own).astype(np.float32) @ v[:, start : start + 48]
        largest = new
    assert judge.verdict(found / total).passed
    powers = np.exp2(scores - largest)
    assert judge.verdict((powers / powers.sum(axis=2, keepdims=True)).astype(own).astype(np.float32) @ v).passed


# --- sums and maxima without more


@lru_cache(1)
def right_of(operation: Operation) -> Any:
    return expected(operation, made(operation, "exact"))


def differs(operation: Operation, x: Any) -> bool:
    right = right_of(operation)
    return compare_bits(operation.reference([x]).astype(right.dtype), right).word == "different"


@pytest.mark.parametrize(
    ("types", "k"),
    [*((types, 65536) for types in ("f32", "bf16", "f16_f32", "f64", "i8", "i32")), ("f16", 8), ("f16", 2048)],
)
@pytest.mark.parametrize("axis", ["inner", "outer", "all"])
def test_every_term_of_a_sum_counts(types: str, k: int, axis: str) -> None:
    sizes = {"inner": (1, k), "outer": (k, 1), "all": (8, k // 8)}[axis]
    operation = REDUCTION.make(sizes, types, axis=axis)
    (x,) = widened(made(operation, "exact"))
    for position in positions(k):
        for factor in (0, 2):
            wrong = x.copy()
            wrong.flat[position] *= factor
            assert differs(operation, wrong), position


def test_a_sum_in_f16_counts_2048_terms_of_a_line() -> None:
    """What docs/verification.md says of longer ones."""
    for k in (4096, 65536):
        x = made(REDUCTION.make((4, k), "f16"), "exact")[0]
        assert [int((line != 0).sum()) for line in x] == [2048] * 4
        assert set(abs(x).ravel().tolist()) == {0.0, 1.0}


@pytest.mark.parametrize("axis", ["inner", "outer", "all"])
@pytest.mark.parametrize("types", REDUCTION.signatures)
def test_a_largest_in_each_line_at_another_place(types: str, axis: str) -> None:
    operation = REDUCTION.make((16, 64), types, kind="max", axis=axis)
    (x,) = widened(made(operation, "exact"))
    lines = {"inner": x, "outer": x.T, "all": x.reshape(1, -1)}[axis]
    largest = lines.argmax(axis=1)
    assert len({*largest.tolist()}) == min(lines.shape)
    for line, place in enumerate(largest):
        wrong = x.copy()
        {"inner": wrong, "outer": wrong.T, "all": wrong.reshape(1, -1)}[axis][line, place] = -2
        assert differs(operation, wrong)
    assert largest[0] == lines.shape[1] - 1
    begun_with_0 = np.maximum(operation.reference([x]), 0)
    assert (begun_with_0 != operation.reference([x])).all()


@pytest.mark.parametrize(("types", "side"), [("f32", 256), ("i32", 64), ("f64", 64), ("f16", 32), ("f32", 3)])
def test_every_term_of_a_window_counts(types: str, side: int) -> None:
    operation = POOLING.make((1, side, side, 1, side, side), types, kind="sum")
    (x,) = widened(made(operation, "exact"))
    for position in positions(side * side):
        for factor in (0, 2):
            wrong = x.copy()
            wrong.flat[position] *= factor
            assert differs(operation, wrong), position


@pytest.mark.parametrize("types", POOLING.signatures)
def test_padding_that_is_0_is_the_largest_of_every_window_that_has_some(types: str) -> None:
    operation = POOLING.make((1, 9, 9, 2, 3, 3), types, kind="max", padding=1)
    right = operation.reference(widened(made(operation, "exact")))
    assert right.max() < 0


# --- compiled


def _without_last_key(operation: Operation) -> str:
    body, (b, _, n, k1, k2) = operation.body(""), operation.sizes
    for name, size in (("arg1", k1), ("arg2", n)):
        whole, part = f"tensor<{b}x{k2}x{size}xf16>", f"tensor<{b}x{k2 - 1}x{size}xf16>"
        body = body.replace(f"%{name}", f"%cut{name}").replace(whole, part)
        text = f"%cut{name} = tensor.extract_slice %{name}[0, 0, 0] [{b}, {k2 - 1}, {size}] [1, 1, 1]"
        body = f"    {text} : {whole} to {part} loc(unknown)\n" + body
    return body


def _wrong() -> Iterator[tuple[str, Operation, str]]:
    for types, kind, n in (("f32", "layer", 4096), ("f32", "rms", 16384), ("f16_f32_f16", "layer", 16384)):
        operation = NORM.make((2, n), types, kind=kind)
        body = operation.body("")
        for right, wrong in ((f"constant {n}.0", f"constant {n - 1}.0"), (repr(EPSILON), "1.0e-06")):
            assert right in body
            yield f"{wrong} for {right}", operation, body.replace(right, wrong)
    operation = ATTENTION.make((1, 16, 16, 64, 4096), "f16")
    yield "the last key left out", operation, _without_last_key(operation)


@pytest.mark.iree
def test_a_compiled_module_with_an_error_at_real_sizes_is_reported(workspace: Workspace, tmp_path: Path) -> None:  # noqa: F811
    wrong = list(_wrong())
    right = [(operation, operation.body("")) for operation in dict.fromkeys(operation for _, operation, _ in wrong)]
    flags = TARGETS["llvm-cpu"].resolved_flags(workspace.resolver.host, workspace.resolver.syntax)
    functions = [*right, *((operation, body) for _, operation, body in wrong)]
    record = workspace.executor.compile_module(module(functions).encode(), flags)
    assert record.ok, record.reason
    vmfb = workspace.store.path(record.outputs["vmfb"])
    found = [
        different(operation, called(workspace, vmfb, f"f{i}", operation, "counted", tmp_path), "counted")
        for i, (operation, _) in enumerate(functions)
    ]
    assert found[: len(right)] == [False] * len(right)
    assert [what for (what, _, _), told in zip(wrong, found[len(right) :], strict=True) if not told] == []
