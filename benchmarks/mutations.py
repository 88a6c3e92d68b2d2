"""Find the smallest error that verification always detects: `python -m benchmarks.mutations [NAME …]`.

The command plants errors: it changes random elements of operands or of correct results. An error is detected if
verification rejects the results for at least one recipe (a way to make inputs). docs/verification.md shows the
table. The columns are:

- one result: one element of the result is multiplied by 1 + size or 1 - size. The sizes are 1, 1/2, 1/4 and so on.
  The cell is the smallest size such that all errors of this size or larger are detected. If results are integers, 1
  is added or subtracted instead, and the cell is 1 if all errors are detected.
- one term: one element of an operand is multiplied by 1 + size or 1 - size. For each result that changes,
  |change| / Σ|terms| is computed. For Σ|terms|, see `Side.scale`. The largest of these quotients is the share of the
  error. The cell is the largest share of an undetected error, rounded up to a power of two. The cell also covers the
  errors of the next two columns, which have the size 1.
- lost or doubled, in one: one element of an operand is multiplied by 0 or 2. Only one of the changed results is
  compared. The cell is the percentage of detected errors.
- in all: like the previous column, but all changed results are compared.
- digits: an operand is rounded to fewer binary digits, but only for 16 neighboring results at a random place. For
  example, `24→21` means that the rounding from 24 to 21 digits is detected at every place that was tried. The
  rounding to 22 or 23 digits is missed at some places.
- planted: the number of errors in all columns.

The option `--places` sets the number of planted errors of each kind for each operation. This number is divided by the
number of the operation's types. Each type gets at least 130 errors of each kind, even if the total then exceeds
`--places`. An error in an operand counts only if a result changes.

Rounding errors of real kernels are not simulated."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dispatchflow.operations import OPERATIONS, Operation
from dispatchflow.reports.table import markdown
from dispatchflow.verification.inputs import dtype_of, made
from dispatchflow.verification.reference import bounds, expected, widened
from dispatchflow.verification.verdict import compare_bits, compare_bounded

SIZES: dict[str, tuple[int, ...]] = {
    "attention": (2, 16, 64, 64, 1024),
    "batch_matmul": (2, 12, 16, 4096),
    "chain": (12, 256, 16, 1024),
    "conv2d": (1, 10, 10, 128, 12, 3, 3),
    "depthwise_conv2d": (1, 16, 16, 32, 3, 3),
    "elementwise": (64, 256),
    "matmul": (12, 16, 4096),
    "matmul_splitk": (12, 16, 4096),
    "matvec": (64, 4096),
    "norm": (16, 4096),
    "pooling": (1, 16, 16, 32, 3, 3),
    "quantized_conv2d": (1, 10, 10, 128, 12, 3, 3),
    "quantized_matmul": (12, 16, 4096),
    "reduction": (16, 4096),
    "scaled_matmul": (12, 16, 4096),
    "softmax": (24, 4096),
    "transpose": (64, 256),
    "vecmat": (64, 4096),
}
_LEVELS = 30
_FIRST, _LEAST = 40, 130
_BESIDE = 16


class Side(NamedTuple):
    """The inputs that one recipe (a way to make inputs) makes for an operation, and the expected results."""

    recipe: str
    operands: list[Any]
    """The operands, in float64 or int64."""
    right: Any
    """The expected results, unrounded."""
    dtype: np.dtype[Any]
    scale: Any
    """Σ|terms| of each result, as a flat array: the sum of the magnitudes of the result's terms.

    For a floating-point operation without products, the larger of two numbers is used instead: the magnitude of the
    result, and the root mean square of all results."""
    against: tuple[Any, ...]
    """The arrays that results are compared with: the expected bits, or a reference and its tolerance."""

    def finds(self, places: Any, results: Any) -> bool:
        """Return whether verification rejects `results`, the elements at the flat indices `places`."""
        with np.errstate(over="ignore", invalid="ignore"):
            got = np.asarray(results).astype(self.dtype)
        beside = [array.reshape(-1)[places] for array in self.against]
        compare: Callable[..., Any] = compare_bits if len(beside) == 1 else compare_bounded
        return not compare(got, *beside).passed


class Planted(NamedTuple):
    share: float
    """The largest change that the error causes in a result, divided by the result's `Side.scale`."""
    found: bool


@dataclass(frozen=True)
class Subject:
    """Plants errors in the operands and results of an operation."""

    operation: Operation

    @cached_property
    def sides(self) -> list[Side]:
        operation, found = self.operation, []
        for recipe in operation.recipes:
            stored = made(operation, recipe)
            operands = widened(stored)
            bits = operation.compares_bits(recipe)
            against = (expected(operation, stored),) if bits else bounds(operation, stored, recipe)
            right = np.asarray(operation.reference(operands))
            found.append(
                Side(recipe, operands, right, dtype_of(operation.types.result), self._scale(operands, right), against)
            )
        return found

    def _scale(self, operands: list[Any], right: Any) -> Any:
        if self.operation.multiplies or not self.operation.types.result.is_float:
            scale = self.operation.magnitude(operands)
        else:
            largest = abs(right).max() or 1.0  # squares of the largest numbers of f64 would be infinite
            scale = np.maximum(abs(right), largest * np.sqrt(np.mean(np.square(right / largest))))
        return np.maximum(np.asarray(scale, np.float64).reshape(-1), 1e-300)

    def one_result(self, random: np.random.Generator) -> Callable[[float], bool]:
        place = random.integers(0, self.sides[-1].right.size, 1)
        sign = random.choice((-1, 1))

        def found(size: float) -> bool:
            results = ((side, side.right.reshape(-1)[place]) for side in self.sides)
            if not self.operation.types.result.is_float:
                return any(side.finds(place, value + sign) for side, value in results)
            with np.errstate(over="ignore"):
                return any(side.finds(place, value * (1 + sign * size)) for side, value in results)

        return found

    def one_term(self, random: np.random.Generator, single: bool, size: float) -> Planted | None:
        """Multiply a random element of an operand by 1 ± `size`, and check whether the error is detected.

        If `single` is true, only one of the changed results is compared. Returns None if no result changes."""
        operands = self.sides[-1].operands
        index = int(random.integers(len(operands)))
        element = tuple(int(random.integers(length)) for length in operands[index].shape)
        weight, chosen = 1 + random.choice((-1, 1)) * size, random.random()
        place, share, found = None, 0.0, False
        for side in reversed(self.sides):  # with the last recipe, random, nearly all results change
            wrong = [array.copy() for array in side.operands]
            with np.errstate(all="ignore"):
                wrong[index][element] *= np.asarray(weight).astype(wrong[index].dtype)
                results = np.asarray(self.operation.reference(wrong)).reshape(-1)
            places = np.flatnonzero(results != side.right.reshape(-1))
            if single and place is None and places.size:
                place = places[[int(chosen * places.size)]]
            places = places if place is None or not single else place
            if places.size:
                off = abs(results[places] / side.scale[places] - (side.right.reshape(-1) / side.scale)[places]).max()
                share = max(share, float(off)) if side is self.sides[-1] else share or float(off)
                found = found or side.finds(places, results[places])
        return Planted(share, found) if share else None

    def digits(self, index: int, count: int, starts: Sequence[int]) -> bool:
        """Return whether verification detects the rounding of operand `index` to `count` binary digits.

        For each `start` in `starts`, the slice `[start:start + 16]` of the results must reveal the rounding."""
        wrong = []
        for side in self.sides:
            operands = [_rounded(array, count) if i == index else array for i, array in enumerate(side.operands)]
            with np.errstate(all="ignore"):
                wrong.append((side, np.asarray(self.operation.reference(operands)).reshape(-1)))
        size = wrong[0][1].size
        runs = [np.arange(start, min(start + _BESIDE, size)) for start in starts]
        return all(any(side.finds(run, results[run]) for side, results in wrong) for run in runs)


def _rounded(array: Any, digits: int) -> Any:
    fraction, exponent = np.frexp(array)
    with np.errstate(over="ignore"):
        return np.ldexp(np.round(np.ldexp(fraction, digits)), exponent - digits)


def certain(errors: Sequence[Callable[[float], bool]]) -> float | None:
    """Return the smallest size such that all planted errors of this size or larger are found.

    Returns None if some error of size 1 is not found. Each function in `errors` plants an error of the given size, and
    returns whether verification finds the error. The sizes are 1, 1/2, 1/4, …."""
    # A few errors, all planted with the same size, find the first candidate for the result.
    first = errors[:_FIRST]
    missed = (at for at in range(_LEVELS) if not all(error(2.0**-at) for error in first))
    level = next(missed, _LEVELS) - 1
    while level >= 0:
        # Half of all errors get the candidate size; those of the other half are spread over it and all larger sizes.
        at = [level if index % 2 else index // 2 % (level + 1) for index in range(len(errors))]
        if all(error(2.0**-level) for error, level in zip(errors, at, strict=True)):
            return 2.0**-level
        level -= 1
    return None


def none_missed_from(planted: Iterable[Planted]) -> float:
    """Return the largest share of a missed error, rounded up to a power of two; 0 if none is missed.

    For example, missed errors with the shares 0.1 and 0.2 give 0.25."""
    largest = max((each.share for each in planted if not each.found), default=0.0)
    return float(2.0 ** np.ceil(np.log2(largest))) if largest else 0.0


def row(operation: Operation, places: int, seed: int) -> dict[str, str]:
    subject, random = Subject(operation), np.random.default_rng(seed)
    smallest = certain([subject.one_result(random) for _ in range(places)])
    sizes = [2.0 ** -(index % 16) if operation.types.result.is_float else 1.0 for index in range(places)]
    terms = {
        single: [found for size in sizes if (found := subject.one_term(random, single, size))]
        for single in (True, False)
    }
    whole = {
        single: [found for _ in range(places) if (found := subject.one_term(random, single, 1.0))]
        for single in (True, False)
    }
    starts = random.integers(0, max(1, subject.sides[-1].right.size - _BESIDE), places).tolist()
    both = [*terms[True], *terms[False], *whole[True], *whole[False]]
    return {
        "operation": operation.name,
        "types": operation.types.spelling,
        "sizes": "x".join(map(str, operation.sizes)),
        "one result": _power(smallest) if operation.types.result.is_float or smallest is None else "1",
        "one term": _power(none_missed_from(both)),
        "lost or doubled, in one": _percent(whole[True]),
        "in all": _percent(whole[False]),
        "digits": ", ".join(_digits(subject, index, starts) for index in range(len(subject.sides[-1].operands))),
        "planted": f"{2 * places + len(both):,}",
    }


def _power(size: float | None) -> str:
    if size is None:
        return "some missed"
    return f"2^{np.log2(size):.0f}".replace("-", "−") if size else "none missed"


def _percent(planted: Sequence[Planted]) -> str:
    return f"{sum(each.found for each in planted) / max(len(planted), 1):.1%}"


def _digits(subject: Subject, index: int, starts: Sequence[int]) -> str:
    """Return what the column `digits` says about operand `index`, such as `24→22`."""
    element = subject.operation.operands()[index].type.element
    if not element.is_float:
        return "–"
    found = (count for count in range(element.digits - 1, 0, -1) if subject.digits(index, count, starts))
    return f"{element.digits}→{next(found, 'none')}"


def operations(names: Iterable[str]) -> Iterable[Operation]:
    for name in names or OPERATIONS:
        for word in OPERATIONS[name].signatures:
            operation = OPERATIONS[name].make(SIZES[name], word)
            if operation.illegal("llvm-cpu") is None:
                yield operation


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="operations; all by default")
    parser.add_argument("--places", type=int, default=520)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    rows = []
    for operation in operations(asked.names):
        types = len(operation.signatures)
        rows.append(row(operation, max(-(-asked.places // types), _LEAST), asked.seed))
        print(*rows[-1].values(), sep=" | ", flush=True)
    print(markdown(tuple(rows[0]), rows))


if __name__ == "__main__":
    main()
