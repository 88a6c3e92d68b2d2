"""Check that the invocations of a microbenchmark fit the functions of their compiled modules.

An invocation names a function, its operands and its expected results."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dispatchflow import units
from dispatchflow.cases import module
from dispatchflow.cases.module import ELEMENT_TYPES
from dispatchflow.errors import SpecError, suggestion
from dispatchflow.iree import parameters
from dispatchflow.iree.module_metadata import ModuleMetadata
from dispatchflow.iree.rotation import Operand
from dispatchflow.mlir.types import ElementType
from dispatchflow.verification import inputs as recipes
from dispatchflow.verification import module_data

if TYPE_CHECKING:
    from dispatchflow.operations.api import Array

_SIGNLESS = {"uint8": "int8", "uint16": "int16", "uint32": "int32", "uint64": "int64"}


@dataclass(frozen=True, slots=True)
class Input:
    """An operand: a number or a numpy array. Types of ml_dtypes, such as `bfloat16`, are allowed.

    If `cold` is true, each call uses the next of many copies of the operand, so that the operand is not in the
    last-level cache (docs/python.md)."""

    value: Any
    cold: bool = False


@dataclass(frozen=True, slots=True)
class Invocation:
    """A function call to verify and measure.

    Args:
        name: the name in the table of results, unique in a run.
        vmfb: the path of the compiled module, or its bytes.
        inputs: the operands, each a value or an `Input`.
        expected: a number or an array for each result of the function; None to compare nothing.
        rtol: the tolerance of floating-point results; None for the default of the element type (docs/python.md).
        parameters: files with weights, each `FILE` or `SCOPE=FILE`, such as `model=weights.irpa`."""

    name: str
    vmfb: bytes | str | os.PathLike[str]
    function: str
    inputs: Sequence[Any] = ()
    expected: Sequence[Any] | None = field(default=None, kw_only=True)
    rtol: float | None = field(default=None, kw_only=True)
    parameters: str | Sequence[str] = field(default=(), kw_only=True)


@dataclass(frozen=True, slots=True)
class Call:
    """A function call that was checked: its operands and its expected results fit the function."""

    name: str
    module: str
    function: str
    vmfb: bytes
    operands: tuple[Operand, ...]
    values: tuple[bytes, ...]
    """The content of each operand: the bytes of a tensor, or the text of a scalar, such as `5`."""
    results: tuple[str, ...]
    """The declared types of the results."""
    expected: tuple[tuple[str, bytes], ...] | None
    """The type and the bytes of each expected result. None if nothing is compared.

    The type has a number for every size, even if the function declares a dynamic size."""
    rtol: str | None
    parameters: tuple[str, ...] = ()
    """The values of the tools' option `--parameters`, with absolute paths."""

    @property
    def cold(self) -> bool:
        return any(operand.cold for operand in self.operands)


def checked(given: Invocation, vmfb: bytes, metadata: ModuleMetadata) -> Call:
    """Check an invocation against the functions of its compiled module, and return the call to make.

    Raises:
        SpecError: the module has no such function, or operands or expected results do not fit the function."""
    place = {"invocation": given.name}
    declared = metadata.functions.get(given.function)
    if declared is None:
        facts = {**place, "functions": ", ".join(metadata.functions) or "none"}
        raise SpecError(
            f"the module has no function '{given.function}'", facts, suggestion(given.function, metadata.functions)
        )
    items = [item if isinstance(item, Input) else Input(item) for item in given.inputs]
    if len(items) != len(declared.inputs):
        problem = f"inputs given: {len(items)}; {given.function} takes {len(declared.inputs)}"
        raise SpecError(problem, {**place, "takes": ", ".join(declared.inputs) or "none"})
    operands, values = [], []
    for index, (item, type) in enumerate(zip(items, declared.inputs, strict=True)):
        operand, value = _operand(item, type, f"input {index}", place)
        operands.append(operand)
        values.append(value)
    if given.function in metadata.fenced and any(operand.cold for operand in operands):
        raise SpecError(
            f"{given.function} takes fences, and its inputs cannot be rotated", place, "Give them with cold=False."
        )
    expected = None if given.expected is None else _expected(list(given.expected), declared.results, given, place)
    rtol = None if given.rtol is None else repr(float(given.rtol))
    texts = (given.parameters,) if isinstance(given.parameters, str) else given.parameters
    return Call(
        given.name, metadata.name, given.function, vmfb, tuple(operands), tuple(values), declared.results, expected,
        rtol, tuple(_weights(written, place) for written in texts),
    )  # fmt: skip


def _weights(written: str, place: dict[str, str]) -> str:
    """Return `written`, such as `model=weights.irpa`, with an absolute path.

    The path must be absolute because the tools run in another directory.

    Raises:
        SpecError: the format of the file is not known, or the file does not exist."""
    scope, name = parameters.checked(written, place, "model=weights.irpa")
    file = Path(name).absolute()
    if not file.is_file():
        raise SpecError("these parameters are not in a file", {**place, "found": written, "no file": str(file)})
    return f"{scope}={file}" if scope else str(file)


def _expected(
    arrays: Sequence[Any], results: Sequence[str], given: Invocation, place: dict[str, str]
) -> tuple[tuple[str, bytes], ...]:
    if len(arrays) != len(results):
        problem = f"expected results given: {len(arrays)}; {given.function} gives {len(results)}"
        raise SpecError(problem, {**place, "gives": ", ".join(results) or "none"})
    found = []
    for index, (value, type) in enumerate(zip(arrays, results, strict=True)):
        what = f"expected result {index}"
        array = _array(value, what, place)
        if module.is_scalar(type):
            number = _number(array, type, what, place)
            held = np.array(number, module_data.number_type(type, 8 if type in ("f64", "i64", "index") else 4))
            found.append((type, held.tobytes()))
        else:
            found.append((_fitting(array, type, what, place)[0], array.tobytes()))
    return tuple(found)


def _operand(item: Input, declared: str, what: str, place: dict[str, str]) -> tuple[Operand, bytes]:
    array = _array(item.value, what, place)
    if module.is_scalar(declared):
        if item.cold:
            raise SpecError(f"{what} is the bare number {declared}: it is in no memory that could be cold", place)
        return Operand(None, declared, 0, False), str(_number(array, declared, what, place)).encode()
    _, element = _fitting(array, declared, what, place)
    return Operand(array.shape, element.mlir, array.nbytes, item.cold), array.tobytes()


def _array(value: Any, what: str, place: dict[str, str]) -> Array:
    try:
        array: Array = np.asarray(value, order="C")
    except (ValueError, TypeError) as error:
        raise SpecError(f"{what} is no array: {error}", place) from error
    if array.dtype.kind in "OSU":  # texts, and any other object
        form = 'An operand is a value: numpy.zeros((4, 8), "float32"), numpy.load("x.npy"), or 5.'
        raise SpecError(f"{what} is {value!r:.60}, neither a number nor an array", place, form)
    name = array.dtype.newbyteorder("=").name
    return array.astype(array.dtype.newbyteorder("="), copy=False).view(np.dtype(_SIGNLESS.get(name, array.dtype)))


def _number(array: Array, declared: str, what: str, place: dict[str, str]) -> int | float:
    kinds = "biu" if declared[0] == "i" else "biuf"
    if array.size != 1 or array.dtype.kind not in kinds:
        raise SpecError(f"{what} is {_held(array)}; the function has the number {declared} there", place)
    value = array.reshape(()).item()
    return int(value) if isinstance(value, bool) else value


def _fitting(array: Array, declared: str, what: str, place: dict[str, str]) -> tuple[str, ElementType]:
    """Check that an array fits the type `declared`; return the array's type and its element type.

    The array's type is text such as `4x8xf32`.

    Raises:
        SpecError: the element type is unknown, or the array does not fit."""
    element = next((each for each in ELEMENT_TYPES.values() if recipes.dtype_of(each) == array.dtype), None)
    if element is None:
        known = ", ".join(ELEMENT_TYPES)
        raise SpecError(f"{what} is {_held(array)}, which is no known element type", {**place, "known": known})
    spelt = module.spelt(array.shape, element.mlir)
    if (problem := module.problem_with(spelt, declared)) is not None:
        hint = 'numpy\'s floats are f64: convert them, array.astype("float32").' if element is ElementType.F64 else ""
        raise SpecError(f"{what} {problem.replace('the function takes', 'the function has')}", place, hint)
    return spelt, element


def _held(array: Array) -> str:
    return f"{array.dtype} with {units.count(array.size, 'element')}"
