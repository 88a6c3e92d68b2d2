"""Compute the work of a dispatch: its flops from iteration domains, and its bytes from tensor types."""

from __future__ import annotations

import math
import re

from dispatchflow.models import kinds
from dispatchflow.models.tagged import Computation, Dispatch

_TENSOR = re.compile(r"tensor<((?:(?:\d+|\?)x)*)([^x,<>][^,<>]*(?:<[^<>]*>)?)(?:,.*)?>")
_MAP = re.compile(r"\(([^)]*)\)(?:\[[^]]*\])? -> \(([^)]*)\)")
_BITS = re.compile(r"(?:[a-z]*?)(\d+)(?:E\w+)?")


def flops(dispatch: Dispatch) -> int | None:
    """Return the number of arithmetic operations in one execution of a dispatch.

    A multiply-add counts as two. The result is None if a size is unknown, or if it is unknown how much arithmetic an
    operation does."""
    total = 0
    for operation in dispatch.operations:
        if kinds.is_around(operation):
            continue
        count = kinds.arithmetic(operation)
        points = domain(operation) if count else 0
        if count is None or points is None:
            return None
        total += count * points
    return total


def domain(operation: Computation) -> int | None:
    """Return the number of points that a linalg operation iterates over; None if a size is unknown."""
    sizes: dict[str, int] = {}
    dims: list[str] = []
    for text, type_ in zip(operation.maps, operation.types, strict=False):
        match, shape = _MAP.fullmatch(text), sizes_of(type_)
        if match is None or shape is None:
            return None
        dims = [dim.strip() for dim in match[1].split(",") if dim.strip()]
        for result, size in zip(match[2].split(","), shape, strict=False):
            if size is not None:
                sizes.setdefault(result.strip(), size)
    return math.prod(sizes[dim] for dim in dims) if operation.maps and all(dim in sizes for dim in dims) else None


def elements(dispatch: Dispatch) -> tuple[str, ...]:
    """Return the element types that the arithmetic operations in a dispatch use.

    The types are sorted and have no duplicates."""
    found = set[str]()
    for operation in dispatch.operations:
        if not kinds.is_around(operation) and kinds.arithmetic(operation):
            found |= {match[2] if (match := _TENSOR.fullmatch(type_)) else type_ for type_ in operation.types}
    return tuple(sorted(found))


def traffic_bytes(dispatch: Dispatch) -> int | None:
    """Return the total size, in bytes, of all tensor operands and results of a dispatch.

    The result is None if a size is unknown."""
    total = 0
    for type_ in (*dispatch.operands, *dispatch.results):
        if type_.startswith("tensor<"):
            if (size := nbytes(type_)) is None:
                return None
            total += size
    return total


def sizes_of(type_: str) -> tuple[int | None, ...] | None:
    """Return the sizes of a tensor type: (4, None) for `tensor<4x?xf32>`.

    A scalar type has the sizes (). The result is None for any other type."""
    if not type_.startswith("tensor<"):
        return () if re.fullmatch(r"[a-z]+[\w]*", type_) else None
    match = _TENSOR.fullmatch(type_)
    return tuple(None if dim == "?" else int(dim) for dim in match[1].split("x")[:-1]) if match else None


def nbytes(type_: str) -> int | None:
    """Return the size of a tensor type in bytes: 128 for `tensor<4x8xf32>`.

    The result is None if `type_` is not a tensor type, has a dynamic size (`?`), or has elements of unknown width."""
    match, sizes = _TENSOR.fullmatch(type_), sizes_of(type_)
    if match is None or sizes is None or None in sizes:
        return None
    element = match[2]
    parts = 2 if element.startswith("complex<") else 1
    if parts == 2:
        element = element.removeprefix("complex<").removesuffix(">")
    bits = 64 if element == "index" else 8 if element == "i1" else None
    if bits is None and (found := _BITS.fullmatch(element)):
        bits = int(found[1])
    if bits is None:
        return None
    return -(-math.prod(size for size in sizes if size is not None) * bits * parts // 8)
