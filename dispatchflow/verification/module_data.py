"""Make the inputs and expected results of a user's module from random numbers, literals and files."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from dispatchflow import units
from dispatchflow.cases import literals, module
from dispatchflow.cases.module import ELEMENT_TYPES, File, Input, Module
from dispatchflow.cases.ranges import bounds
from dispatchflow.errors import ToolError
from dispatchflow.keys import digest_of
from dispatchflow.mlir.functions import BUFFER_VIEW
from dispatchflow.mlir.types import ElementType
from dispatchflow.verification import inputs, ranges

if TYPE_CHECKING:
    from dispatchflow.operations.api import Array


def arguments(program: Module, types: Sequence[str]) -> list[tuple[str, bytes]]:
    """Return (spelling, bytes) for each argument.

    The spelling of a tensor is its type, such as `4x8xf32`. The spelling of a number is `=` and its value: `=5`.

    Raises:
        ToolError: the spec's inputs do not fit `types`, the argument types that the function declares."""
    if program.problem is not None:
        raise ToolError(program.problem)
    given = program.inputs if program.inputs is not None else (Input(None, module.RECIPES[0]),) * len(types)
    if len(given) != len(types):
        takes = ", ".join(types) or "none"
        raise ToolError(f"inputs given: {len(given)}; {program.function} takes {len(types)}: {takes}")
    return [_argument(item, declared, index) for index, (item, declared) in enumerate(zip(given, types, strict=True))]


def _argument(item: Input, declared: str, index: int) -> tuple[str, bytes]:
    if module.is_scalar(declared):
        if item.type not in (None, declared):
            raise ToolError(f"input {index} is {item.type}, the function takes {declared}")
        if item.file is not None and item.file.is_array and item.type is None:
            return _scalar(_number_in(item.file, declared, f"input {index}"))
        if item.value is None or _is_recipe(item.value) or len(literals.words(str(item.value))) != 1:
            raise ToolError(f'input {index} is the number {declared}: give it, inputs = [… "5" …]')
        return _scalar(*_numbers(str(item.value), declared, f"input {index}"))
    if declared == f"tensor<{item.type}>":
        item = replace(item, type=declared)  # `i32=6`, as in the runtime's tools
    if item.file is not None and item.type is None:
        return _npy(item.file, declared, index)
    if declared == BUFFER_VIEW and item.type is None:
        raise ToolError(f'input {index} is a {declared}, which has any type: give one, inputs = ["4x8xf32", …]')
    spelling = item.type or declared
    if (problem := module.problem_with(spelling, declared)) is not None:
        raise ToolError(f"input {index} {problem}")
    known = module.shape_of(spelling)
    if known is None:
        raise ToolError(f"input {index} has the type {declared}, which dispatchflow does not know")
    if item.type is None and item.value is not None and not _is_recipe(item.value):
        raise ToolError(
            f'input {index} is a bare number, the function takes {declared}: "{declared}={item.value}" fills it'
        )
    shape, element = tuple(size or 0 for size in known[0]), known[1]
    found = content(item.file) if item.file else _made(str(item.value), shape, element, index).tobytes()
    needed = int(np.prod(shape, dtype=np.int64)) * element.bits // 8
    if len(found) != needed:
        raise ToolError(f"input {index}: {item.file and item.file.path} has {len(found)} B; {spelling} needs {needed}")
    return _spelt(shape, element), found


def _is_recipe(value: str) -> bool:
    return value in module.RECIPES or bounds(value) is not None


def _scalar(number: float) -> tuple[str, bytes]:
    return f"={number}", str(number).encode()


def _number_in(file: File, declared: str, what: str) -> int | float:
    """Return the only element of a `.npy` file, as a number of the type `declared`."""
    array = _load(file)
    if array.size != 1 or array.dtype.kind not in "biuf":
        raise ToolError(f"{what}: {file.spelt} holds {_held(array)}; the number {declared} needs one element")
    value = array.reshape(()).item()
    (number,) = _numbers(repr(int(value) if array.dtype.kind == "b" else value), declared, what)
    return number


def _held(array: Array) -> str:
    return f"{array.dtype} of shape {array.shape}"


def _spelt(shape: Sequence[int], element: ElementType) -> str:
    """Return a tensor type as the runtime spells it, such as `4x8xf32`."""
    return "x".join([*map(str, shape), element.mlir])


def _element_of(array: Array) -> ElementType | None:
    return next((element for element in ElementType if inputs.dtype_of(element) == array.dtype), None)


def _npy(file: File, declared: str, index: int) -> tuple[str, bytes]:
    array = _load(file)
    element = _element_of(array)
    if element is None:
        raise ToolError(f"input {index}: {file.spelt} holds {array.dtype}, which is not a known element type")
    if (problem := module.problem_with(module.spelt(array.shape, element.mlir), declared)) is not None:
        raise ToolError(f"input {index}: {file.spelt} {problem}")
    return _spelt(array.shape, element), array.tobytes()


def _made(value: str, shape: tuple[int, ...], element: ElementType, index: int) -> Array:
    dtype, size = inputs.dtype_of(element), int(np.prod(shape, dtype=np.int64))
    if bounds(value) is not None:
        return ranges.made(value, size, element, index)
    if value not in module.RECIPES:
        numbers = np.array(_numbers(value, element.mlir, f"input {index}")).astype(dtype)
        if numbers.size not in (1, size):
            has = f"{numbers.size} numbers; its type {units.count(size, 'element')}, and one stands for all"
            raise ToolError(f"input {index} has {has}")
        return np.broadcast_to(numbers, (size,)) if numbers.size == 1 else numbers
    raw = inputs.stream(index, 1 if value == "random" else 0, size)
    if element is ElementType.I1:
        return (raw >> np.uint64(63)).astype(bool)
    return inputs.uniform(raw, element) if value == "random" else (inputs.below(raw, 7) - 3).astype(dtype)


def _numbers(value: str, element: str, what: str) -> list[int] | list[float]:
    """Parse literals as numbers of the type `element`; raise ToolError if one is out of the type's range."""
    words = literals.words(value)
    if literals.is_integer(element):
        try:
            return [literals.integer(word, element) for word in words]
        except ValueError as error:
            raise ToolError(f"{what}: {error}") from error
    numbers = [float(word) for word in words]
    if element in ELEMENT_TYPES:
        wide = np.array(numbers)
        with np.errstate(over="ignore", invalid="ignore"):
            held = wide.astype(inputs.dtype_of(ELEMENT_TYPES[element])).astype(np.float64)
        altered = (np.isnan(held) != np.isnan(wide)) | (np.isinf(held) != np.isinf(wide))
        if altered.any():
            raise ToolError(f"{what}: {words[int(altered.argmax())]} is not representable as {element}")
    return numbers


def expected(program: Module, results: Sequence[str]) -> dict[int, tuple[str, bytes]]:
    """Return the user's expected results: a dict from index to (type such as `4x8xf32`, bytes).

    The type is "" if the user's file does not state it. Results that are bare numbers (not tensors) are left
    out if the user gives files only for the tensors.

    Raises:
        ToolError: the number of results, a type or a size differs from the function's."""
    given, places = program.expected, range(len(results))
    tensors = [i for i in places if not module.is_scalar(results[i])]
    if len(given) == len(tensors) and all(isinstance(item, File) for item in given):
        return {i: _expected(item, results[i], i) for i, item in zip(tensors, given, strict=True)}
    if len(given) != len(results):
        numbers = len(results) - len(tensors)
        beside = f" ({units.count(numbers, 'bare number')} may be left out)" if numbers else ""
        gives = f"{program.function} gives {len(results)}: {', '.join(results) or 'none'}{beside}"
        raise ToolError(f"expected results given: {len(given)}; {gives}")
    return {i: _expected(item, results[i], i) for i, item in zip(places, given, strict=True)}


def _expected(item: File | str, declared: str, index: int) -> tuple[str, bytes]:
    if module.is_scalar(declared):
        what = f"expected result {index}"
        if isinstance(item, str):
            (value,) = _numbers(item, declared, what)
        elif item.is_array:
            value = _number_in(item, declared, what)
        else:
            raise ToolError(f'{what} is the number {declared}: give it, expected = [… "5" …]')
        return declared, np.array(value, number_type(declared, 8 if declared in _WIDE else 4)).tobytes()
    if isinstance(item, str):
        raise ToolError(f"expected result {index} is a bare number, {item}; the function gives {declared}: name a file")
    if item.type is not None:
        return item.type, _typed(item, declared, index)
    if not item.is_array:
        return "", content(item)
    array, known = _load(item), module.shape_of(declared)
    element = _element_of(array)
    if known is not None and (
        element is None or module.problem_with(module.spelt(array.shape, element.mlir), declared)
    ):
        raise ToolError(f"expected result {index}: {item.spelt} holds {_held(array)}; the function gives {declared}")
    return module.spelt(array.shape, element.mlir if element else str(array.dtype)), array.tobytes()


def _typed(item: File, declared: str, index: int) -> bytes:
    """Return the bytes of an expected result that the user gave as type and raw file, `4x8xf32=@y.bin`."""
    assert item.type is not None
    if module.problem_with(item.type, declared) is not None:
        raise ToolError(f"expected result {index} is given as {item.type}; the function gives {declared}")
    found, needed = content(item), module.nbytes_of(item.type)
    if len(found) != needed:
        raise ToolError(f"expected result {index}: {item.path} has {len(found)} B; {item.type} needs {needed}")
    return found


_WIDE = ("f64", "i64", "index")


def number_type(declared: str, nbytes: int) -> np.dtype[Any]:
    """Return the numpy type of a bare number (no tensor) of 4 or 8 bytes; u1 for other sizes."""
    return np.dtype(f"{'f' if declared in ('f32', 'f64') else 'i'}{nbytes}" if nbytes in (4, 8) else "u1")


def number(held: bytes, declared: str) -> Array | None:
    """Convert the bytes that the runtime wrote for a bare number (no tensor) to an array of rank 0.

    If the runtime wrote 4 bytes for an i8, the low 8 bits are its value. Returns None for f16 and bf16."""
    if declared in ("f16", "bf16") or len(held) not in (4, 8):
        return None
    (value,) = np.frombuffer(held, number_type(declared, len(held)))
    if literals.is_integer(declared) and declared != "index":
        low = int(value) & (1 << (bits := int(declared[1:]))) - 1
        value = np.int64(low - (1 << bits) if low >> bits - 1 and bits > 1 else low)
    return np.asarray(value)


def content(file: File) -> bytes:
    """Return the bytes of a file; if the file is a `.npz` archive, the bytes of its member `file.member`.

    Raises:
        OSError: the file cannot be read, or has changed since the plan was made.
        ToolError: the archive is damaged."""
    found = Path(file.path).read_bytes()
    if digest_of(found) != file.digest:
        raise OSError(f"{file.path} has changed since the plan was made")
    if file.member is None:
        return found
    try:
        with zipfile.ZipFile(io.BytesIO(found)) as archive:
            return archive.read(f"{file.member}.npy")
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError, RuntimeError) as error:
        raise ToolError(f"{file.spelt} cannot be read: {error}") from error


def objects(program: Module, printed: str) -> tuple[dict[str, bytes], str]:
    """Return (a module's object files, the module's text in which names replace these files' paths).

    The files are a dict from name to content. A name is the content's digest with the path's suffix, or with `.object`
    if the path has no suffix. `printed` is the module's text with the paths, as the compiler prints it.

    Raises:
        ToolError: planning could not read an object file, or the module runs a compiler pass that reads a file.
        OSError: an object file has changed since planning, or cannot be read any more."""
    if (option := module.reading_pass(printed)) is not None:
        raise ToolError(f"the module runs a pass that reads a file, {option}: its content would be in no key")
    known, names, found = dict(program.objects), dict[str, str](), dict[str, bytes]()
    for path in module.objects(printed):
        if path not in known:
            raise ToolError(
                f"{path}, which the module names as an object, cannot be read; paths are relative to the module's file,"
                " and cannot be found in bytecode, which iree-opt prints as text"
            )
        # The compiler recognizes the kind of file by its suffix.
        ending = re.sub(r"[^\w.]", "", PurePath(path).suffix, flags=re.ASCII) or ".object"
        names[path] = f"{known[path].digest}{ending}"
        found[names[path]] = content(known[path])
    return found, module.with_objects(printed, names.__getitem__)


def _load(file: File) -> Array:
    held = content(file)
    stream = io.BytesIO(held)
    try:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(stream)
        needed, there = prod(shape) * dtype.itemsize, len(held) - stream.tell()
        if needed > there:  # numpy would allocate this much memory
            raise ValueError(
                f"its header gives {'x'.join(map(str, shape))} of {dtype}, {needed:,} B; {there:,} B follow"
            )
        array: Array = np.load(io.BytesIO(held), allow_pickle=False)
    except (ValueError, EOFError, OverflowError, TypeError, SyntaxError) as error:
        raise ToolError(f"{file.spelt} is not a .npy file: {error}") from error
    return np.asarray(array, order="C")  # ascontiguousarray turns rank 0 into rank 1


def tolerance(element: ElementType, rtol: str | None) -> float:
    """Return the relative tolerance of results: `rtol` if it is given, else the element type's default."""
    return float(rtol) if rtol is not None else _RTOL[element]


# No error analysis gives a bound for a user's program. u**0.6 is a choice: 5e-5 for f32, 1e-2 for f16.
_RTOL = {element: 2.0 ** (-0.6 * element.digits) for element in ElementType if element.is_float}
