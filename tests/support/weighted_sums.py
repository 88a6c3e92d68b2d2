"""Make sums in which one term has a wrong weight, and judge the results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dispatchflow.operations import OPERATIONS, Operation
from dispatchflow.verification.inputs import dtype_of, made
from dispatchflow.verification.reference import bounds, widened
from dispatchflow.verification.verdict import Verdict, compare_bounded

SIZES = [8, 4096, 16384]
WEIGHTS = {"lost": 0.0, "doubled": 2.0, "half": 0.5}
NAMES = ("softmax", "norm", "attention", "reduction", "pooling")
SOFTMAX, NORM, ATTENTION, REDUCTION, POOLING = (OPERATIONS[name] for name in NAMES)


def positions(n: int) -> list[int]:
    """Return some indices below `n`: both ends, boundaries of vectors and tiles, and two random ones."""
    boundaries = {0, n - 1, n // 2, 7, 8, 63, 64, n - 64}
    return sorted(p for p in boundaries | set(np.random.default_rng(n).integers(0, n, 2).tolist()) if 0 <= p < n)


def weights(n: int) -> Iterator[tuple[str, Any]]:
    """Yield (description, weights) for sums of `n` terms in which exactly one weight is wrong.

    A weight is the factor of a term; the right factor is 1. At each of `positions(n)`, every wrong weight in
    `WEIGHTS` is used. If `n` is 4096 or more, only one wrong weight is used at each position."""
    for i, position in enumerate(positions(n)):
        for word, factor in WEIGHTS.items() if n < 4096 else [[*WEIGHTS.items()][i % 3]]:
            weight = np.ones(n)
            weight[position] = factor
            yield f"{word} at {position}", weight


class Judge:
    """Judges results of an operation for the inputs of one recipe. A recipe is a way to make inputs."""

    def __init__(self, operation: Operation, recipe: str = "counted") -> None:
        self.operation, self.operands = operation, widened(made(operation, recipe))
        self.bounds = bounds(operation, self.operands, recipe)

    def verdict(self, result: Any) -> Verdict:
        with np.errstate(over="ignore", invalid="ignore"):
            return compare_bounded(np.asarray(result).astype(dtype_of(self.operation.types.result)), *self.bounds)

    def missed(self, results: Iterator[tuple[str, Any]]) -> list[str]:
        return [what for what, result in results if self.verdict(result).passed]
