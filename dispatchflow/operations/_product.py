"""Products of matrices that the compiler configures so that it cannot compile them: of which types and sizes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from dispatchflow.types import ElementType, Signature

if TYPE_CHECKING:
    from dispatchflow.syntax import Syntax
    from dispatchflow.targets import Target

_NARROW = (ElementType.F16, ElementType.BF16, ElementType.F8E4M3FN, ElementType.F8E5M2)
_UNPACKED = {"vulkan-spirv": _NARROW, "metal-spirv": (ElementType.BF16,)}


class Product(NamedTuple):
    """Its sizes, all of them known to the compiler. `batched`: not by itself in its op, which has several; `turned`:
    the right operand lies column by column."""

    m: int
    n: int
    k: int
    batched: bool = False
    turned: bool = False


# What follows are the rules of what compiled, of many sizes tried.
_OF_F16 = re.compile(r"\w+_(F\d+)_(\d+)x(\d+)x(\d+)_F16")


def refused(product: Product, types: Signature, syntax: Syntax, target: Target) -> str | None:
    """As `Operation.untuned`."""
    return unlowered(product, types, target) or undistributed(product, types, syntax, target)


def unlowered(product: Product, types: Signature, target: Target) -> str | None:
    """As `Operation.untuned`, of SPIR-V."""
    (m, n, k, batched, turned), element = product, types.operands[0]
    if m > 1 and element in _UNPACKED.get(target.backend, ()) and n % 16 == 0 and k % (8 if turned else 2) == 0:
        return (
            f"a product of {element.mlir} with n a multiple of 16 and k of {8 if turned else 2} is not compiled to "
            "SPIR-V by default (IREE 3.9 and 3.13: 'vector.bitcast' is refused)"
        )
    dotted = target.backend == "metal-spirv" and element is ElementType.I8 and not batched and k % 4 == 0
    if dotted and ((m > 1 and n % 8 == 0) or (m % 32 == 0 and n % 4 == 0 and k < 32)):
        sizes = "n a multiple of 8 and k of 4" if n % 8 == 0 else "m a multiple of 32, n and k of 4, k below 32"
        return (
            f"a product of i8 with {sizes} is not compiled for Metal by default "
            "(IREE 3.9 and 3.13: 'DotProduct' requires min version v1.6)"
        )
    return None


def undistributed(product: Product, types: Signature, syntax: Syntax, target: Target) -> str | None:
    """As `Operation.untuned`, of sums in f16 where all instructions of f16 sum in f32: the compiler takes one that
    divides the product, and fails."""
    if types.accumulator is not ElementType.F16 or target.gpu is None or syntax.release < (3, 11):
        return None
    known = [match for name in target.gpu.mma if (match := _OF_F16.fullmatch(name))]
    if any(match[1] == "F16" for match in known):
        return None
    for match in known:
        if not any(size % int(unit) for size, unit in zip(product[:3], match.groups()[1:], strict=True)):
            what = f"sums in f16 are not compiled by default where {match[0]} divides the product"
            return f"{what} (IREE 3.11 to 3.13: 'failed to distribute')"
    return None
