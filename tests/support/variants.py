"""Make small variants of each operation in all types, layouts and options, and judge their results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, lru_cache, partial
from itertools import product
from typing import Any

import numpy as np

from dispatchflow.operations import OPERATIONS, Operation
from dispatchflow.verification.inputs import dtype_of, made
from dispatchflow.verification.reference import bounds, expected, widened
from dispatchflow.verification.verdict import Verdict, compare_bits, compare_bounded

SHAPES = {
    "conv2d": (2, 7, 7, 4, 6, 3, 3),
    "quantized_conv2d": (2, 7, 7, 3, 4, 3, 3),
    "depthwise_conv2d": (2, 7, 7, 3, 3, 3),
    "pooling": (2, 7, 7, 3, 3, 3),
    "batch_matmul": (3, 8, 8, 8),
    "matmul_splitk": (12, 12, 12),
    "chain": (8, 6, 8, 8),
    "scaled_matmul": (8, 8, 64),
}


def variants(cls: type[Operation]) -> Iterator[Operation]:
    """Yield the variants of `cls` that are legal on the target `llvm-cpu`."""
    sizes = SHAPES.get(cls.name, (8,) * len(cls.dims))
    values = [
        dict.fromkeys((option.default, *option.values[:2])) if isinstance(option.values, range) else option.values
        for option in cls.options.values()
    ]
    for word, layout, chosen in product(cls.signatures, cls.layouts, product(*values)):
        operation = cls(sizes, cls.signatures[word], layout, tuple(chosen))
        changed = sum(a != b for a, b in zip(operation.chosen, cls.make(sizes).chosen, strict=True))
        # At most one option differs from its default, or two for the operation's first type.
        if changed <= 1 + (word == next(iter(cls.signatures))) and operation.illegal("llvm-cpu") is None:
            yield operation


def epilogue_of(operation: Operation) -> str:
    return operation.option("epilogue") if "epilogue" in operation.options else "none"


def other(operation: Operation, **changed: Any) -> Operation:
    chosen = tuple(changed.get(word, value) for word, value in zip(operation.options, operation.chosen, strict=True))
    return replace(operation, chosen=chosen)


@cache
def by_name(name: str) -> list[Operation]:
    return list(variants(OPERATIONS[name]))


def verdicts(operation: Operation, result: Callable[[list[Any]], Any]) -> set[str]:
    """Verify the function `result` with several sets of inputs, and return the verdicts.

    `result` computes the operation, possibly with an error. It returns None if the operation cannot have this error.
    The verdicts {"equal", "different"} mean that only some inputs show an error."""
    return set(_words(operation, result))


def _words(operation: Operation, result: Callable[[list[Any]], Any]) -> Iterator[str]:
    for recipe in operation.recipes:
        operands, judge = judged_by(operation, recipe)
        if (found := result([array.copy() for array in operands])) is None:
            return  # an error that this operation cannot have
        yield judge(np.asarray(found).astype(dtype_of(operation.types.result))).word


def is_told(operation: Operation, result: Callable[[list[Any]], Any | None]) -> bool:
    return "different" in _words(operation, result)


@lru_cache(8)
def judged_by(operation: Operation, recipe: str) -> tuple[list[Any], Callable[[Any], Verdict]]:
    """Return the operands that a recipe makes, and a function that judges a result for these operands.

    A recipe is a way to make inputs. The operands are float64 or int64 arrays; equal calls return the same arrays."""
    operands = made(operation, recipe)
    if operation.compares_bits(recipe):
        judge = partial(compare_bits, expected=expected(operation, operands))
    else:
        reference, tolerance = bounds(operation, operands, recipe)
        judge = partial(compare_bounded, reference=reference, tolerance=tolerance)
    return widened(operands), judge
