"""Make random numbers for operands: raw integers, and their conversions to floats and other types.

The raw integers are Philox streams, which numpy keeps stable (NEP 19)."""

from __future__ import annotations

from math import prod

import ml_dtypes
import numpy as np

from dispatchflow.operations.api import Array, ElementType

SEED = 20240229


def dtype_of(element: ElementType) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, element.numpy_name, element.numpy_name))


def stream(index: int, recipe: int, count: int) -> Array:
    """Return the first `count` random 64-bit integers of a stream.

    `index` is the number of the operand. `recipe` is the number of a recipe, which is a way to make inputs. The numbers
    are 0 for `exact` and `far`, 1 for `random`, 2 for `wide` and `wide2`, and 5 for `largest`. `exact2` has 6, `exact3`
    has 7, and so on. All other recipes have 3."""
    # The value 4 is no recipe: `verification.power` chooses with it where it plants errors in operands.
    raw: Array = np.random.Philox(key=np.array([SEED + recipe, index], dtype=np.uint64)).random_raw(count)
    return raw


def bits(index: int, shape: tuple[int, ...], of: int = 1) -> Array:
    """Return random booleans, each of which is true with probability 2**-`of`.

    They are for recipes (ways to make inputs) that an operation defines itself."""
    raw: Array = stream(index, 3, prod(shape)).reshape(shape) >> np.uint64(64 - of) == 0
    return raw


def below(raw: Array, bound: int) -> Array:
    """Return integers in 0 … bound-1, from the upper 32 bits of each raw number."""
    return (((raw >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32)).astype(np.int64)


def uniform(raw: Array, element: ElementType, low: float = -1.0, high: float = 1.0) -> Array:
    """Return uniform random numbers: floats from `low` to `high`, integers in the type's range."""
    dtype = dtype_of(element)
    if not element.is_float:
        signed = raw if element.is_unsigned else raw.view(np.int64)
        return (signed >> signed.dtype.type(64 - element.bits)).astype(dtype)
    return ((raw >> np.uint64(11)).astype(np.float64) * (2.0**-53 * (high - low)) + low).astype(dtype)


def negative(raw: Array, element: ElementType) -> Array:
    """Return an array that is true where `uniform` returns a negative number for the same `raw`.

    The type must be signed. If it is a floating-point type, the range of `uniform` must be symmetric around 0."""
    below_0: Array = (raw.view(np.int64) < 0) != element.is_float
    return below_0


def full(raw: Array, digits: int) -> Array:
    """Return random numbers between -2 and 2 whose significands need exactly `digits` binary digits."""
    sign = 1.0 - 2.0 * (raw & np.uint64(1)).astype(np.float64)
    odd = 2 * below(raw, 2 ** max(digits - 2, 0)) + 1 + (2 ** (digits - 1) if digits > 1 else 0)
    values: Array = sign * odd * 2.0 ** (1 - digits)
    return values
