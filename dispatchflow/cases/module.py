"""Represent a user's MLIR file in a case (`operation = "module"`), and parse MLIR types."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import ClassVar

from dispatchflow.iree import parameters
from dispatchflow.iree.flags import Flags, of_meaning
from dispatchflow.iree.targets import Target
from dispatchflow.keys import Digest
from dispatchflow.mlir.attributes import unescaped
from dispatchflow.mlir.functions import BUFFER_VIEW
from dispatchflow.mlir.types import ElementType
from dispatchflow.workload import Kind, Workload

ELEMENT_TYPES = {
    element.mlir: element
    for element in ElementType
    if element.bits >= 8 and not element.is_unsigned and element is not ElementType.F8E8M0FNU
}
"""A dict from MLIR name to element type. Values of any other element type are handled as raw bytes."""
RECIPES = ("random", "integers")
"""The names of the ways (recipes) to generate a module's inputs.

`random` is uniform: floats in [-1, 1), integers over their full range. `integers` is -3 … 3 (0 … 3 if unsigned)."""

ONNXRUNTIME = "onnxruntime"
"""The value of the spec's key `reference` if onnxruntime computes the expected results."""

_OBJECT = re.compile(r"(executable\.object<\s*\{\s*path\s*=\s*)\"((?:[^\"\\]|\\.)*)\"(?=\s*\}\s*>)")
# The only other attribute that makes the compiler read a file, in the pass iree-preprocessing-attr-based-pipeline.
_READING_PASS = re.compile(r"preprocessing_pipeline<\"[^\"]*?([\w-]*(?:file|path)[\w-]*=[^\"\s}]*)")
SAME_CODE = "the reference is the same code"
"""The message if nothing is compared because the module and its reference compile to the same code."""
_SCALAR = re.compile(r"index|[fi]\d+|bf16")
_SIZES = re.compile(r"(?:tensor<)?((?:(?:\d+|\?)x)*)[^!\d?].*")


@dataclass(frozen=True, slots=True)
class File:
    """A file that a spec or module names."""

    path: str = field(compare=False)
    digest: Digest
    member: str | None = None
    """The name of an array in a `.npz` file; None for the complete file."""
    type: str | None = None
    """The type of an expected result in a file of raw bytes; None if the spec does not give it."""

    @property
    def is_array(self) -> bool:
        """True if the file is in numpy's format, which states type and sizes. Otherwise it has raw bytes."""
        return self.member is not None or (self.type is None and self.path.endswith(".npy"))

    @property
    def spelt(self) -> str:
        """The file's name in messages: `path`, or `path:array` for an array of an `.npz` file."""
        return self.path if self.member is None else f"{self.path}:{self.member}"

    @property
    def identity(self) -> str | tuple[str | None, ...]:
        """The value that stands for this file in cache keys: its digest, with `member` and `type` if given."""
        if self.member is None and self.type is None:
            return self.digest
        return self.digest, self.member, self.type


@dataclass(frozen=True, slots=True)
class Input:
    """An argument of a call: generated (`random`), a literal (`0.5`, `1 2 3`) or read from a file."""

    type: str | None
    value: str | None
    file: File | None = None


@dataclass(frozen=True, slots=True)
class Parameters:
    """A file with weights that a module loads at run time. `scope` is the prefix of the weights' names."""

    scope: str
    file: File
    ending: str
    """The suffix of the file's name, from which the runtime infers the format."""


@dataclass(frozen=True, slots=True)
class Module(Workload):
    """A function of a user's MLIR or ONNX file.

    If none of `expected`, `against` and `against_library` is given, the function is run, and its
    results are not compared."""

    source: File
    title: str
    entry: str
    inputs: tuple[Input, ...] | None = None
    """The arguments; None if all of them are generated at random."""
    expected: tuple[File | str, ...] = ()
    """Expected results: files, or numbers as the spec spells them."""
    against: Target | None = None
    """A target on which the same module computes the expected results."""
    rtol: str | None = None
    objects: tuple[tuple[str, File], ...] = ()
    """(path, file) for each file that the module names: code to link, or weights of an ONNX model."""
    parameters: tuple[Parameters, ...] = ()
    importer: str | None = None
    """`onnx`, the package that converts the file to MLIR; None for a file that is MLIR."""
    against_library: str | None = None
    """The library that computes the expected results from this module's file; None if there is none."""
    problem: str | None = None
    """The error in a test suite's flag file (the file with the inputs); None if there is no error."""
    meaning: Flags = ()
    """The case's compiler flags that also apply when the module is compiled for the target `against`."""

    name: ClassVar[str] = "module"
    dims: ClassVar[tuple[str, ...]] = ()

    @property
    def kind(self) -> Kind:
        return Kind.MLIR if self.importer is None else Kind.ONNX

    @property
    def recipes(self) -> tuple[str, ...]:
        return ("given",)

    @property
    def sizes(self) -> tuple[int, ...]:
        return ()

    @property
    def label(self) -> str:
        """The part of a case's name that stands for the file and the function, such as `a_net`."""
        return re.sub(r"[^\w.$+-]", "-", f"{self.title}_{self.entry}")

    @property
    def function(self) -> str:
        return self.entry

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The names that the files with weights have in a tool's working directory."""
        return tuple(f"parameters_{i}{item.ending}" for i, item in enumerate(self.parameters))

    @property
    def parameter_values(self) -> tuple[str, ...]:
        """The values of the runtime's option `--parameters=`, one for each file with weights."""
        named = zip(self.parameters, self.parameter_names, strict=True)
        return tuple(parameters.value(item.scope, name) for item, name in named)

    @property
    def tolerance(self) -> str:
        """The text that stands for the tolerance in the cache key of the stage `verify`."""
        return self.rtol or "by element type"

    @property
    def compared(self) -> bool:
        return bool(self.expected) or self.against is not None or self.against_library is not None

    @property
    def packages(self) -> tuple[str, ...]:
        """The Python packages that convert the file to MLIR or compute the expected results."""
        return tuple(filter(None, (self.importer, self.against_library)))

    @property
    def reference_name(self) -> str:
        """The reference's name in error messages, such as `the reference, module on vmvx`."""
        if self.against is None:
            return f"the reference, {self.against_library}"
        return f"the reference, {self.name} on {self.against.name}"

    def compiled_with(self, flags: Flags) -> Module:
        """Return the module with the field `meaning` set from a case's compiler flags.

        These are the flags that change what the module computes, such as `--iree-input-demote-f64-to-f32`. The
        reference is compiled with them too."""
        meaning = of_meaning(flags)
        return replace(self, meaning=meaning) if meaning else self

    def flops(self) -> int | None:
        return None

    def traffic_bytes(self) -> int | None:
        return None


def objects(text: str) -> list[str]:
    """Return the paths of the object files that a module's text names."""
    return list(dict.fromkeys(unescaped(match[2]) for match in _OBJECT.finditer(text)))


def with_objects(text: str, name_of: Callable[[str], str]) -> str:
    """Replace each object file's path in a module's text by `name_of(path)`, a path that needs no escapes."""
    return _OBJECT.sub(lambda match: f'{match[1]}"{name_of(unescaped(match[2]))}"', text)


def reading_pass(text: str) -> str | None:
    """Return the option in a module's `preprocessing_pipeline` that names a file; None if no option does."""
    match = _READING_PASS.search(text)
    return match[1] if match else None


def shape_of(spelling: str) -> tuple[tuple[int | None, ...], ElementType] | None:
    """Parse `4x?xf32` to ((4, None), F32). Return None for types other than tensors of `ELEMENT_TYPES`."""
    if is_scalar(spelling):
        return None
    element = element_of(spelling)
    dims = spelling.removeprefix("tensor<").split("x")[:-1]
    if element not in ELEMENT_TYPES or not all(dim == "?" or dim.isdecimal() for dim in dims):
        return None
    return tuple(None if dim == "?" else int(dim) for dim in dims), ELEMENT_TYPES[element]


def sizes_of(spelling: str) -> tuple[int | None, ...] | None:
    """Parse `4x?xf32` to (4, None), for any element type. Return None for a type that is not a tensor."""
    match = None if is_scalar(spelling) else _SIZES.fullmatch(spelling)
    return tuple(None if dim == "?" else int(dim) for dim in match[1].split("x")[:-1]) if match else None


def nbytes_of(spelling: str) -> int | None:
    """Return the size of a tensor in bytes; None if it is unknown."""
    known = shape_of(spelling)
    if known is None or None in known[0]:
        return None
    bits: int = known[1].bits
    return prod(size or 0 for size in known[0]) * bits // 8


def is_sized(spelling: str) -> bool:
    """Return whether a type is a scalar type, such as `f32`, or a tensor without dynamic sizes."""
    sizes = sizes_of(spelling)
    return is_scalar(spelling) or (sizes is not None and None not in sizes)


def spelt(sizes: Sequence[int | None], element: str) -> str:
    """Return a tensor's type as text: `4x?xf32`. Rank 0 is `tensor<f32>`, because `f32` is a scalar type."""
    dims = ["?" if size is None else str(size) for size in sizes]
    return "x".join([*dims, element]) if dims else f"tensor<{element}>"


def with_sizes_of(printed: str, declared: str) -> str:
    """Return the type of a result, with the sizes that the runtime printed.

    `printed` is the type in the runtime's output. `declared` is the type in the function's signature. If the printed
    element type is not in `ELEMENT_TYPES`, the declared one is used, unless `declared` is a buffer view. For example,
    the runtime prints a result of the declared type `?x8xcomplex<f32>` as `4x8xcf64`. The returned type is
    `4x8xcomplex<f32>`."""
    known = declared == BUFFER_VIEW or element_of(printed) in ELEMENT_TYPES
    return printed if known else spelt(sizes_of(printed) or (), element_of(declared))


def unlike(got: str, expected: str) -> str | None:
    """Return how two tensor types differ: `40x12, expected 12x40`; None if equal or a size is unknown."""
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
    """Return whether a type is a scalar type, such as `f32`. The tensor of rank 0, `tensor<f32>`, is not."""
    return _SCALAR.fullmatch(spelling) is not None


def element_of(spelling: str) -> str:
    """Return the element type of a type: `f32` for `tensor<4x8xf32>`, `4x8xf32` or the scalar `f32`."""
    if is_scalar(spelling):
        return spelling
    inner = spelling.removeprefix("tensor<").removesuffix(">") if spelling.startswith("tensor<") else spelling
    return re.sub(r"^(?:(?:\d+|\?)x)*", "", inner)


def output_names(results: Sequence[str], stem: str = "output") -> tuple[str, ...]:
    """Return each result's file name. Scalars have files too, because IREE's tool prints only six digits."""
    return tuple(f"{stem}_{i}.bin" for i in range(len(results)))


def problem_with(given: str, declared: str) -> str | None:
    """Return why an input of type `given` does not fit the `declared` type; None if it fits."""
    if "?" in given:
        return f'has the type {given}: give its sizes, inputs = ["{given.replace("?", "16")}", …]'
    wanted, found = shape_of(declared), shape_of(given)
    if declared == BUFFER_VIEW and found is not None:
        return None
    if wanted is None or found is None:
        return None if given == declared else f"is {given}, the function takes {declared}"
    same = len(wanted[0]) == len(found[0]) and all(w in (None, f) for w, f in zip(wanted[0], found[0], strict=True))
    return None if same and wanted[1] is found[1] else f"is {given}, the function takes {declared}"
