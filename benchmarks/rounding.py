"""Measure how large the rounding errors of correct sums become: `python -m benchmarks.rounding`.

The command prints a table. Each row is for an element type and an order of summation. Each column is for a number of
terms. A cell has the largest `|error| / (u * sum(|terms|))` of many sums. For a type with d binary digits, u is 2**-d.
The option `--results` sets the number of sums; columns with many terms use fewer sums.

Verification must tolerate these errors (docs/verification.md, "What sums need")."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from dispatchflow.operations import OPERATIONS
from dispatchflow.verification.inputs import random

TERMS = (8, 64, 512, 4096, 16384, 65536)
TYPES: dict[str, tuple[Any, float]] = {
    "f32": (np.float32, 2.0**-24),
    "f16_f32": (np.float32, 2.0**-24),
    "f16": (np.float16, 2.0**-11),
    "bf16_bf16": (ml_dtypes.bfloat16, 2.0**-8),
}


def one_by_one(terms: Any, dtype: Any) -> Any:
    total = np.zeros(terms.shape[:-1], dtype)
    for i in range(terms.shape[-1]):
        total = (total + terms[..., i]).astype(dtype)
    return total


def pairwise(terms: Any, dtype: Any) -> Any:
    while terms.shape[-1] > 1:
        terms = (terms[..., ::2] + terms[..., 1::2]).astype(dtype)
    return terms[..., 0]


def fused(exact: Any, dtype: Any) -> Any:
    """Return the sum of exact products, rounded to `dtype` after each addition."""
    total = np.zeros(exact.shape[:-1], dtype)
    for i in range(exact.shape[-1]):
        total = (total.astype(np.float64) + exact[..., i]).astype(dtype)
    return total


def in_parts(size: int) -> Callable[[Any, Any], Any]:
    """Return a function that sums blocks of `size` adjacent terms, then adds up the blocks."""

    def summed(terms: Any, dtype: Any) -> Any:
        parts = terms.reshape(*terms.shape[:-1], -1, min(size, terms.shape[-1]))
        return one_by_one(one_by_one(parts, dtype), dtype)

    return summed


def in_lanes(count: int) -> Callable[[Any, Any], Any]:
    """Return a function that computes the partial sum of each of `count` lanes, then adds up these sums.

    Vector code sums in this order. Term i is in lane i mod `count`; for example, two lanes compute
    `(x0 + x2) + (x1 + x3)`."""

    def summed(terms: Any, dtype: Any) -> Any:
        lanes = terms.reshape(*terms.shape[:-1], -1, min(count, terms.shape[-1]))
        return one_by_one(one_by_one(np.moveaxis(lanes, -1, -2), dtype), dtype)

    return summed


ORDERS: dict[str, Callable[[Any, Any], Any]] = {
    "one by one": one_by_one,
    "backwards": lambda terms, dtype: one_by_one(terms[..., ::-1], dtype),
    "pairwise": pairwise,
    "blocks of 16": in_parts(16),
    "blocks of 256": in_parts(256),
    "8 lanes": in_lanes(8),
    "64 lanes": in_lanes(64),
    "largest first": lambda terms, dtype: one_by_one(
        np.take_along_axis(terms, np.argsort(-abs(terms), axis=-1), -1), dtype
    ),
}


def needed(word: str, count: int, results: int) -> dict[str, float]:
    """Return a dict from each order of summation to the largest error that a sum has in this order.

    About `results` sums of `count` terms are computed in each order. The error of a sum is given as |error| / (u ·
    Σ|terms|), with u from `TYPES[word]`."""
    dtype, unit = TYPES[word]
    known = OPERATIONS["matmul"].signatures
    side = max(2, round(results**0.5))
    a, b = random(OPERATIONS["matmul"].make((side, side, count), word if word in known else "bf16"))
    exact = a.astype(np.float64)[:, None, :] * b.astype(np.float64).T[None, :, :]
    scale, wanted = unit * abs(exact).sum(axis=-1), exact.sum(axis=-1)
    rounded = exact.astype(dtype)
    found = {name: order(rounded, dtype) for name, order in ORDERS.items()} | {"fused": fused(exact, dtype)}
    return {name: float((abs(total.astype(np.float64) - wanted) / scale).max()) for name, total in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=int, default=1024, help="sums of each kind [1024]")
    options = parser.parse_args()
    print("| type | order | " + " | ".join(f"{count:,}" for count in TERMS) + " |")
    print("|---|---|" + "---|" * len(TERMS))
    for word in TYPES:
        # The number of products is bounded, so there are fewer sums of many terms.
        columns = [needed(word, count, max(16, min(options.results, 2**25 // count))) for count in TERMS]
        for name in columns[0]:
            print(f"| {word} | {name} | " + " | ".join(f"{column[name]:.1f}" for column in columns) + " |")


if __name__ == "__main__":
    main()
