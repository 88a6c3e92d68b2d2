"""Make a `[[sweep]]` table of a spec for each module that the script `_extractor.py` wrote.

Each module has one dispatch of a program. The table names the module, its inputs and its expected results. A site is
a place of the program that launches a dispatch. Sites with equal dispatches share a module."""

from __future__ import annotations

import struct
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

import msgspec

from dispatchflow.mlir.functions import spelling
from dispatchflow.models.site import Program, Site

FUNCTION = "main"
"""The name of the function in an extracted module."""
_SCRIPT = Path(__file__).with_name("_extractor.py")
_SCALARS = {"index": "<q", "i64": "<q", "i32": "<i", "i16": "<h", "i8": "<b", "i1": "<?", "f64": "<d", "f32": "<f"}
_INDICES = ("i32", "i64")
_UNUSABLE = {
    "encoding": "its operands have an encoding, a layout that the compiler chooses later, so no function can take them",
    "complex<": "its operands or results are complex numbers, which a spec cannot describe",
}
"""A dict from parts of MLIR types to the reason why a spec cannot describe such types."""


class Argument(msgspec.Struct, frozen=True):
    """One argument of the function in an extracted module. The function launches one dispatch."""

    type: str
    """The argument's MLIR type, such as `tensor<4x?xf32>` or `index`."""
    value: str
    """The name of the operand or result to which the argument belongs, or a name such as `workload0`.

    If the argument is an operand of the dispatch, this is the operand's name, such as `in0`. If the argument is the
    size of a dimension, this is the name of the operand or result that has the dimension. If the argument is a number
    that occurs only in the dispatch's workload, this is a name with its index in the workload, such as `workload0`."""
    dim: int | None = None
    """The index of the dimension whose size is passed; None if no size is passed."""


class Extract(msgspec.Struct, frozen=True):
    """An extracted module: an executable, and a function that launches one of its exports (kernels)."""

    executable: str
    export: str
    arguments: tuple[Argument, ...]
    results: tuple[str, ...]
    """The MLIR types of the function's results."""


class Extracted(msgspec.Struct, frozen=True):
    """The modules that the script `_extractor.py` wrote. Module N is in the file `N.mlir`."""

    modules: tuple[Extract, ...]
    dispatches: dict[int, int]
    """A dict from the number of each dispatch (`Site.dispatch`) to the index of its module in `modules`."""


class Value(msgspec.Struct, frozen=True):
    """A captured operand or result of a dispatch."""

    type: str
    """The type, with the sizes at run time: `4x8xf32` for a tensor, `index` or `i32` for a scalar."""
    content: bytes | None = None
    """The bytes of a scalar, little-endian; None for a tensor, whose bytes are in a file."""
    undefined: bool = False
    """True if some elements depend on memory that the program never wrote."""


class Sweep(msgspec.Struct, frozen=True):
    """The content of a `[[sweep]]` table for one extracted module, and the files to which it refers."""

    site: Site
    same: tuple[int, ...]
    """The numbers of the other sites that share this module, because they launch equal dispatches."""
    module: int
    """The index of the module in `Extracted.modules`."""
    name: str
    """The beginning of the names of the module's files: for site 1, `s01` in `s01.mlir` and `s01.in0.bin`."""
    inputs: tuple[str, ...] | None
    """The value of `inputs` in the table; None if the inputs are not known. The reason is then in `why`."""
    expected: tuple[str, ...] = ()
    """The value of `expected` in the `[[sweep]]` table; empty if the results are not compared."""
    files: tuple[tuple[str, str], ...] = ()
    """The name of each file beside the module, with the name of the captured value in the file.

    An example is the pair (`s01.in0.bin`, `in0`)."""
    why: str | None = None
    """The reason why inputs or expected results are missing; None if neither is missing."""


def extractor_argv(python: str, bindings: str, source: str, facts: str) -> tuple[str, ...]:
    """Return a command line that runs the script `_extractor.py`.

    `source` is the file with the program from which the script extracts modules. The script writes a description of
    these modules (`Extracted`) to the file `facts`."""
    return (python, "-I", "-S", str(_SCRIPT), f"--bindings={bindings}", f"--input={source}", f"--facts={facts}")


def stem(number: int, program: Program) -> str:
    """Return the beginning of the names of a site's files.

    This is `s01` for site 1, or `s001` in a program of 100 sites or more."""
    return f"s{number:0{max(2, len(str(len(program.sites))))}d}"


def chosen(program: Program, extracted: Extracted, sites: Sequence[int]) -> dict[int, list[Site]]:
    """Return a dict from the number of each extracted module to the sites that launch its dispatch.

    Only sites whose numbers are in `sites` are included, in program order. Sites without a module
    (docs/sites-alone.md) are left out."""
    found: dict[int, list[Site]] = {}
    for site in program.sites:
        if site.number in sites and site.dispatch in extracted.dispatches:
            found.setdefault(extracted.dispatches[site.dispatch], []).append(site)
    return found


def captured_first(sites: Sequence[Site], captured: Container[int]) -> list[Site]:
    """Sort the sites of one extracted module so that those whose numbers are in `captured` come first."""
    return sorted(sites, key=lambda site: site.number not in captured)


def without_module(program: Program, extracted: Extracted, sites: Sequence[int]) -> list[int]:
    """Return the numbers in `sites` for which no module was extracted."""
    return [s.number for s in program.sites if s.number in sites and s.dispatch not in extracted.dispatches]


def sweep(
    program: Program, extracted: Extracted, number: int, sites: Sequence[Site], captured: Mapping[str, Value] | str
) -> Sweep:
    """Return the content of the `[[sweep]]` table for an extracted module.

    The table is named after the first of `sites`, and has the inputs and results of this site.

    Args:
        number: the number of the module.
        sites: the sites that launch the module's dispatch (see `captured_first`).
        captured: the captured operands and results of the first site, as a dict from names such as `in0` and `out0`.
            If nothing was captured, this is a text that says why."""
    site, module, name = sites[0], extracted.modules[number], stem(sites[0].number, program)
    same = tuple(sorted(each.number for each in sites[1:]))
    if why := _unusable(module):
        return Sweep(site, same, number, name, None, why=why)
    if isinstance(captured, str):
        inputs = tuple(map(random_input, module.arguments))
        known = None if None in inputs else tuple(filter(None, inputs))
        hint = "" if known else "; random inputs need numbers or sizes that only a capture has: give inputs"
        return Sweep(site, same, number, name, known, why=f"{captured}{hint}")
    files: dict[str, str] = {}
    words = []
    for argument in module.arguments:
        word = _given(argument, captured, name, files)
        if word is None:
            return Sweep(site, same, number, name, None, why=f"{argument.value} was not captured: give inputs")
        words.append(word)
    results = [f"out{i}" for i in range(len(module.results))]
    if lost := [result for result in results if result not in captured]:
        why = f"{', '.join(lost)} was not captured"
    elif (vague := [result for result in results if captured[result].undefined]) and not any(
        value.undefined for name, value in captured.items() if name.startswith("in")
    ):
        why = f"{', '.join(vague)} has elements that the program never wrote, which differ from call to call"
    else:
        expected = tuple(_file(name, result, captured[result].type, files) for result in results)
        return Sweep(site, same, number, name, tuple(words), expected, tuple(files.items()))
    return Sweep(site, same, number, name, tuple(words), (), tuple(files.items()), why)


def _unusable(module: Extract) -> str | None:
    """Return the reason why a spec cannot describe a module's arguments and results; None if it can."""
    types = [*(argument.type for argument in module.arguments), *module.results]
    reasons = (why for text, why in _UNUSABLE.items() if any(text in type_ for type_ in types))
    return next(reasons, None)


def random_input(argument: Argument) -> str | None:
    """Return an entry for a spec's `inputs`, such as `4x8xf32`, that stands for random numbers.

    The entry is for one argument of an extracted module's function. If the argument is a scalar or has a dynamic size,
    the result is None."""
    type_ = spelling(argument.type)
    if "?" in type_ or not argument.type.startswith("tensor<"):
        return None
    # Integers may be indices, which must be within the bounds of another operand.
    return f"{type_}=0..1" if _element(type_) in _INDICES else type_


def _element(type_: str) -> str:
    return type_.removeprefix("tensor<").removesuffix(">").rpartition("x")[2]


def _given(argument: Argument, captured: Mapping[str, Value], name: str, files: dict[str, str]) -> str | None:
    value = captured.get(argument.value)
    if value is None:
        return None
    if argument.dim is not None:
        return value.type.split("x")[argument.dim]
    if value.content is None:
        return _file(name, argument.value, value.type, files)
    return _number(argument.type, value.content)


def _file(name: str, value: str, type_: str, files: dict[str, str]) -> str:
    file = f"{name}.{value}.bin"
    files[file] = value
    return f"{type_}=@{file}"


def _number(type_: str, content: bytes) -> str | None:
    """Return a scalar as text, converted from its bytes.

    If IREE's tools do not take a scalar of this type, the result is None."""
    if type_ not in _SCALARS:
        return None
    form = _SCALARS[type_]
    (number,) = struct.unpack(form, content[: struct.calcsize(form)])
    return repr(int(number) if isinstance(number, bool) else number)
