"""Plant errors that any operation may have, in the numpy reference's operands and in the emitted MLIR.

Verification must detect an error in the MLIR if it detects the same error in the operands."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dispatchflow.mlir import snippets
from dispatchflow.mlir.types import TensorType
from dispatchflow.operations import Operation


@dataclass(frozen=True)
class Plant:
    """An error that can be planted in an operation's operands or in its MLIR body.

    The functions `operands` and `body` plant it in correct operands and in the text of a correct body. `kind`
    describes the error. `name` describes the error and its place."""

    kind: str
    name: str
    operands: Callable[[Sequence[Any]], list[Any]]
    body: Callable[[str], str]
    in_sum: bool = False
    """True if the error drops a term of a sum."""


def plants(operation: Operation) -> Iterator[Plant]:
    """Yield the errors that can be planted in an operation.

    - Along an axis of an operand, the elements at the last index are zero, or all elements are shifted by one.
    - The last two axes of an operand are transposed if their sizes are equal.
    - All elements of an operand are zero.
    - Two operands of one type are swapped.
    """
    types = [operand.type for operand in operation.operands()]
    for i, tensor in enumerate(types):
        summed = operation.operands()[i].summed
        for axis, size in enumerate(tensor.shape):
            if size > 1:
                yield replace(_of_one("without the end", i, tensor, axis, _without_end, _cut), in_sum=axis in summed)
                yield _of_one("shifted by one", i, tensor, axis, _shifted, _moved)
        if len(tensor.shape) > 1 and tensor.shape[-1] == tensor.shape[-2] > 1:
            yield _of_one("transposed", i, tensor, len(tensor.shape) - 2, _transposed, _turned)
        yield _of_one("left out", i, tensor, 0, lambda array, axis: np.zeros_like(array), _nothing)
        yield from (_swapped(i, j) for j in range(i) if types[j] == tensor)


def _of_one(
    kind: str,
    index: int,
    tensor: TensorType,
    axis: int,
    spoil: Callable[[Any, int], Any],
    text: Callable[[str, TensorType, int], str],
) -> Plant:
    def operands(right: Sequence[Any]) -> list[Any]:
        return [spoil(array, axis) if i == index else array for i, array in enumerate(right)]

    def body(right: str) -> str:
        return text(f"arg{index}", tensor, axis) + re.sub(rf"%arg{index}\b", "%spoilt", right)

    return Plant(kind, f"operand {index} {kind}, axis {axis}", operands, body)


def _swapped(first: int, second: int) -> Plant:
    other = {first: second, second: first}
    return Plant(
        "swapped",
        f"operands {second} and {first} swapped",
        lambda right: [right[other.get(i, i)] for i in range(len(right))],
        lambda right: re.sub(rf"%arg({first}|{second})\b", lambda match: f"%arg{other[int(match[1])]}", right),
    )


def _without_end(array: Any, axis: int) -> Any:
    changed = array.copy()
    np.moveaxis(changed, axis, 0)[-1] = 0
    return changed


def _shifted(array: Any, axis: int) -> Any:
    return _without_end(np.roll(array, -1, axis), axis)


def _transposed(array: Any, axis: int) -> Any:
    return array.swapaxes(axis, axis + 1)


def _cut(name: str, tensor: TensorType, axis: int) -> str:
    end = _part(tensor, axis, 1)
    zeros = snippets.filled(end, end.element.zero, "spoil")
    return zeros + _inserted("spoilinit", end, name, tensor, axis, tensor.shape[axis] - 1)


def _moved(name: str, tensor: TensorType, axis: int) -> str:
    rest = _part(tensor, axis, tensor.shape[axis] - 1)
    text = snippets.filled(tensor, tensor.element.zero, "spoil")
    place = _place(tensor, rest, axis, 1)
    text += f"    %spoilrest = tensor.extract_slice %{name}{place} : {tensor.mlir} to {rest.mlir} loc(unknown)\n"
    return text + _inserted("spoilrest", rest, "spoilinit", tensor, axis, 0)


def _turned(name: str, tensor: TensorType, axis: int) -> str:
    order = [*range(axis), axis + 1, axis]
    op = f"linalg.transpose ins(%{name} : {tensor.mlir}) outs(%spoilempty : {tensor.mlir}) permutation = {order}"
    return snippets.empty("spoilempty", tensor) + f"    %spoilt = {op} loc(unknown)\n"


def _nothing(name: str, tensor: TensorType, axis: int) -> str:
    return snippets.filled(tensor, tensor.element.zero, "spoil").replace("%spoilinit", "%spoilt")


def _part(tensor: TensorType, axis: int, size: int) -> TensorType:
    return TensorType((*tensor.shape[:axis], size, *tensor.shape[axis + 1 :]), tensor.element)


def _place(tensor: TensorType, part: TensorType, axis: int, offset: int) -> str:
    offsets = [offset if i == axis else 0 for i in range(len(tensor.shape))]
    return f"{offsets} {list(part.shape)} {[1] * len(offsets)}"


def _inserted(what: str, part: TensorType, into: str, tensor: TensorType, axis: int, offset: int) -> str:
    place = _place(tensor, part, axis, offset)
    return (
        f"    %spoilt = tensor.insert_slice %{what} into %{into}{place} : {part.mlir} into {tensor.mlir} loc(unknown)\n"
    )
