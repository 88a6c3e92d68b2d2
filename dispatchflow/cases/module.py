"""`operation = "module"`: a user's own MLIR file, one case for each of its functions. Pure: texts in, values out."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import ClassVar

from dispatchflow.iree.targets import Target
from dispatchflow.keys import Digest
from dispatchflow.mlir.attributes import unescaped
from dispatchflow.mlir.types import ElementType
from dispatchflow.workload import Workload

ELEMENT_TYPES = {
    element.mlir: element
    for element in ElementType
    if element.bits >= 8 and not element.is_unsigned and element is not ElementType.F8E8M0FNU
}
"""Those whose inputs are made and whose results are compared as numbers; others are bytes."""
RECIPES = ("random", "integers")
"""`random`: uniform in [-1, 1), integers over their whole range; `integers`: -3 … 3 (0 … 3 where unsigned)."""

_OBJECT = re.compile(r"(executable\.object<\s*\{\s*path\s*=\s*)\"((?:[^\"\\]|\\.)*)\"(?=\s*\}\s*>)")
# The one other attribute that makes the compiler read a file (iree-preprocessing-attr-based-pipeline).
_READING_PASS = re.compile(r"preprocessing_pipeline<\"[^\"]*?([\w-]*(?:file|path)[\w-]*=[^\"\s}]*)")
BUFFER_VIEW = "!hal.buffer_view"
"""A tensor whose sizes and element type come with it at run time, as in functions of IREE's own later dialects."""
SAME_CODE = "the reference is the same code"
"""Why there is nothing to compare with."""
_SCALAR = re.compile(r"index|[fi]\d+|bf16")
_SIZES = re.compile(r"(?:tensor<)?((?:(?:\d+|\?)x)*)[^!\d?].*")


@dataclass(frozen=True, slots=True)
class File:
    """A file named in a spec: identity is its content, the path only says where to read it."""

    path: str = field(compare=False)
    digest: Digest


@dataclass(frozen=True, slots=True)
class Input:
    """One argument: its type where the spec says it, and a recipe, a literal (`0.5`, `1 2 3`), or a file."""

    type: str | None
    value: str | None
    file: File | None = None


@dataclass(frozen=True, slots=True)
class Module(Workload):
    """`inputs` None: the random recipe for each argument. What a result is compared with: `expected`, files and bare
    numbers as they are written, or what `against` makes of the same module; with neither it is only run."""

    source: File
    title: str
    entry: str
    inputs: tuple[Input, ...] | None = None
    expected: tuple[File | str, ...] = ()
    against: Target | None = None
    rtol: str | None = None
    objects: tuple[tuple[str, File], ...] = ()
    """What it names as `#hal.executable.object<{path = …}>`: code that is linked into its own."""

    name: ClassVar[str] = "module"
    dims: ClassVar[tuple[str, ...]] = ()

    @property
    def recipes(self) -> tuple[str, ...]:
        return ("given",)

    @property
    def sizes(self) -> tuple[int, ...]:
        return ()

    @property
    def label(self) -> str:
        """Of the file and the function, not of their content: an edited file is the same case, which changed."""
        return re.sub(r"[^\w.$+-]", "-", f"{self.title}_{self.entry}")

    @property
    def function(self) -> str:
        return self.entry

    @property
    def tolerance(self) -> str:
        """As it enters the key of verification."""
        return self.rtol or "by element type"

    @property
    def compared(self) -> bool:
        return bool(self.expected) or self.against is not None

    @property
    def reference_name(self) -> str:
        """`the reference, module on vmvx`"""
        assert self.against is not None
        return f"the reference, {self.name} on {self.against.name}"

    def flops(self) -> int | None:
        return None

    def traffic_bytes(self) -> int | None:
        return None


def objects(text: str) -> list[str]:
    """The paths of the files that a module names; not where the attribute has the file's `data`."""
    return list(dict.fromkeys(unescaped(match[2]) for match in _OBJECT.finditer(text)))


def with_objects(text: str, name_of: Callable[[str], str]) -> str:
    """The text with other paths for `objects`; of letters that need no escape."""
    return _OBJECT.sub(lambda match: f'{match[1]}"{name_of(unescaped(match[2]))}"', text)


def reading_pass(text: str) -> str | None:
    """The option of a pass of the module's own that names a file; None where there is none."""
    match = _READING_PASS.search(text)
    return match[1] if match else None


def shape_of(spelling: str) -> tuple[tuple[int | None, ...], ElementType] | None:
    """`4x?xf32` → ((4, None), F32); None where it is no tensor of a known element type."""
    if is_scalar(spelling):
        return None
    element = element_of(spelling)
    dims = spelling.removeprefix("tensor<").split("x")[:-1]
    if element not in ELEMENT_TYPES or not all(dim == "?" or dim.isdecimal() for dim in dims):
        return None
    return tuple(None if dim == "?" else int(dim) for dim in dims), ELEMENT_TYPES[element]


def sizes_of(spelling: str) -> tuple[int | None, ...] | None:
    """`4x?xf32` → (4, None), whatever the element type is; None where it is no tensor."""
    match = None if is_scalar(spelling) else _SIZES.fullmatch(spelling)
    return tuple(None if dim == "?" else int(dim) for dim in match[1].split("x")[:-1]) if match else None


def is_sized(spelling: str) -> bool:
    """Whether it says all its sizes."""
    sizes = sizes_of(spelling)
    return is_scalar(spelling) or (sizes is not None and None not in sizes)


def spelt(sizes: Sequence[int | None], element: str) -> str:
    """As functions declare it: one of rank 0 is no bare number."""
    dims = ["?" if size is None else str(size) for size in sizes]
    return "x".join([*dims, element]) if dims else f"tensor<{element}>"


def with_sizes_of(printed: str, declared: str) -> str:
    """What a result is in a call. The runtime's name of an element that is no type here may be another than MLIR's."""
    known = declared == BUFFER_VIEW or element_of(printed) in ELEMENT_TYPES
    return printed if known else spelt(sizes_of(printed) or (), element_of(declared))


def unlike(got: str, expected: str) -> str | None:
    """`40x12, expected 12x40`; None where types are alike, or one is not known."""
    sizes = sizes_of(got), sizes_of(expected)
    if None in sizes or not (is_sized(got) and is_sized(expected)):
        return None
    elements = element_of(got), element_of(expected)
    if elements[0] != elements[1] and {*elements} <= ELEMENT_TYPES.keys():
        return f"{got}, expected {expected}"
    if sizes[0] == sizes[1]:
        return None
    if not (sizes[0] and sizes[1]):
        return f"{got}, expected {expected}"
    one, other = ("x".join(map(str, each)) for each in sizes if each)
    return f"{one}, expected {other}"


def is_scalar(spelling: str) -> bool:
    """Passed to the tools as a bare number. A tensor of rank 0 is spelt `tensor<f32>`."""
    return _SCALAR.fullmatch(spelling) is not None


def element_of(spelling: str) -> str:
    """Of a tensor, as it is written, or the bare number itself."""
    if is_scalar(spelling):
        return spelling
    inner = spelling.removeprefix("tensor<").removesuffix(">") if spelling.startswith("tensor<") else spelling
    return re.sub(r"^(?:(?:\d+|\?)x)*", "", inner)


def output_names(results: Sequence[str], stem: str = "output") -> tuple[str, ...]:
    """The file of each result, also of a bare number: printed, it has six digits."""
    return tuple(f"{stem}_{i}.bin" for i in range(len(results)))


def problem_with(given: str, declared: str) -> str | None:
    """Why an input of type `given` does not fit the function's `declared` one, None when it does."""
    if "?" in given:
        return f'has the type {given}: give its sizes, inputs = ["{given.replace("?", "16")}", …]'
    wanted, found = shape_of(declared), shape_of(given)
    if declared == BUFFER_VIEW and found is not None:
        return None
    if wanted is None or found is None:
        return None if given == declared else f"is {given}, the function takes {declared}"
    same = len(wanted[0]) == len(found[0]) and all(w in (None, f) for w, f in zip(wanted[0], found[0], strict=True))
    return None if same and wanted[1] is found[1] else f"is {given}, the function takes {declared}"


def literals(value: str) -> list[str]:
    """The numbers of an input, as they are written."""
    return value.replace(",", " ").split()


def integer(word: str, element: str) -> int:
    """What a literal says, exactly. `element`: `i8`, `index`, …

    Raises:
        ValueError: that is no number of this type.
    """
    bits = 64 if element == "index" else int(element[1:])
    low, high = (0, 1) if bits == 1 else (-(1 << bits - 1), (1 << bits - 1) - 1)
    value = Decimal(word.replace("_", ""))
    if not (value.is_finite() and low <= value <= high and value == value.to_integral_value()):
        raise ValueError(f"{word} is no {element}, {low} … {high}")
    return int(value)


def is_integer(element: str) -> bool:
    return re.fullmatch(r"index|i\d+", element) is not None
